"""SSBJ: every key is where it takes less memory, window or front stage (paper 002)."""

from __future__ import annotations

from semistream.budget import BudgetSplit
from semistream.errors import InputError
from semistream.joins.balance import Balance
from semistream.joins.balanced_stage import BalancedStage
from semistream.joins.disk_phase import Surroundings
from semistream.joins.registry import Options, algorithm
from semistream.joins.scan_phase import ScanPhase
from semistream.joins.window_shape import WindowMaker


@algorithm(
    "ssbj",
    "a scan whose window and front stage share memory by the cache inequality",
    front_share=0.02,
    front_stage=BalancedStage,
)
def ssbj(around: Surroundings, split: BudgetSplit, options: Options) -> ScanPhase:
    if options.switching_factor <= 0:
        raise InputError(
            f"switching factor {options.switching_factor} is not above 0; 1 means that a key moves "
            "as soon as it takes less memory elsewhere"
        )
    stage, store = around.front_stage, around.store
    assert isinstance(stage, BalancedStage)
    maker = WindowMaker.of(around, is_lean=store.is_unique, counts_rows=not store.is_unique)
    memory = split.window + split.front_stage
    balance = Balance(stage, memory, maker, factor=options.switching_factor)
    return ScanPhase(around, maker, balance.window_bytes, split.disk_buffer, balance)
