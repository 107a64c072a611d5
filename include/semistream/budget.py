"""One number of bytes, split among the parts of a join."""

from __future__ import annotations

import os
from dataclasses import dataclass

from semistream.errors import BudgetTooSmall, InputError
from semistream.sizes import format_bytes

_LEAST_WINDOW, _LEAST_FRONT_STAGE = 32 << 10, 16 << 10
_DISK_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class BudgetSplit:
    """Bytes for each component; they add up to the budget."""

    index: int
    disk_buffer: int
    front_stage: int
    window: int


def split_budget(
    budget_bytes: int,
    *,
    index_bytes: int,
    partition_bytes: int,
    front_share: float = 0.0,
    pinned_share: float = 0.0,
) -> BudgetSplit:
    """Divide the budget: the index first, a disk buffer of at least one partition (as read and as
    decoded), then the front stage's share of the rest, then the window with its queue."""
    machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if budget_bytes > machine_bytes:
        raise InputError(
            f"a budget of {format_bytes(budget_bytes)} is more than the memory of this machine: "
            f"give less than {format_bytes(machine_bytes)}"
        )
    least_disk = 2 * partition_bytes
    least_front = _LEAST_FRONT_STAGE if front_share else 0
    smallest = index_bytes + least_disk + least_front + _LEAST_WINDOW
    if budget_bytes < smallest:
        raise BudgetTooSmall(
            f"a budget of {format_bytes(budget_bytes)} is too small for this master: its index "
            f"takes {format_bytes(index_bytes)} and one partition {format_bytes(least_disk)}; "
            f"give at least {smallest} bytes ({format_bytes(smallest)})",
            smallest_bytes=smallest,
        )
    spare = budget_bytes - smallest
    disk = least_disk + int(spare * (_DISK_SHARE + pinned_share))
    rest = budget_bytes - index_bytes - disk
    front = max(int(rest * front_share), least_front) if front_share else 0
    front = min(front, rest - _LEAST_WINDOW)
    return BudgetSplit(index_bytes, disk, front, rest - front)
