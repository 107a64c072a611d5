"""Algorithms by name. A new one is a file with a `@algorithm` function; nothing else changes."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from semistream.budget import BudgetSplit, split_budget
from semistream.errors import InputError, unknown_name
from semistream.joins.bounds import Bounds
from semistream.joins.conditions import Condition
from semistream.joins.core import SemiStreamJoin
from semistream.joins.disk_phase import DiskPhase, Surroundings
from semistream.joins.front_stage import FrontStage
from semistream.joins.join import Join
from semistream.joins.lookup import LookUp
from semistream.joins.ordered import Order, OrderedJoin, require_order
from semistream.joins.outputs import Emitter, How, master_columns
from semistream.joins.shedding import Shedding
from semistream.plain import plain_schema
from semistream.row_sizes import fixed_width
from semistream.sizes import parse_bytes
from semistream.statistics import JoinStatistics
from semistream.stores.protocol import MasterStore, check_columns


@dataclass(frozen=True, slots=True)
class Options:
    """What a caller may tune; None leaves the choice to the algorithm."""

    front_share: float | None = None
    pinned_share: float | None = None
    lookup: LookUp | None = None
    shedding: Shedding | None = None
    switching_factor: float = 1.0  # how much a key must gain to change its place (ssbj)


@dataclass(frozen=True, slots=True)
class Algorithm:
    """A name, how it splits the budget, and how it makes its disk phase."""

    name: str
    summary: str
    make_disk_phase: Callable[[Surroundings, BudgetSplit, Options], DiskPhase]
    front_share: float = 0.0
    pinned_share: float = 0.0
    front_stage: type[FrontStage] = FrontStage
    takes_conditions: bool = False  # joins on other conditions than equality


_ALGORITHMS: dict[str, Algorithm] = {}


def algorithm(
    name: str,
    summary: str,
    *,
    front_share: float = 0.0,
    pinned_share: float = 0.0,
    front_stage: type[FrontStage] = FrontStage,
    takes_conditions: bool = False,
) -> Callable[
    [Callable[[Surroundings, BudgetSplit, Options], DiskPhase]],
    Callable[[Surroundings, BudgetSplit, Options], DiskPhase],
]:
    """Register the decorated maker of a disk phase as algorithm `name`."""

    def register(
        make: Callable[[Surroundings, BudgetSplit, Options], DiskPhase],
    ) -> Callable[[Surroundings, BudgetSplit, Options], DiskPhase]:
        _ALGORITHMS[name] = Algorithm(
            name, summary, make, front_share, pinned_share, front_stage, takes_conditions
        )
        return make

    return register


@cache
def _discover() -> None:
    import semistream.joins as package

    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"semistream.joins.{module.name}")


def algorithms() -> dict[str, Algorithm]:
    """Every registered algorithm, by name."""
    _discover()
    return dict(sorted(_ALGORITHMS.items()))


def open_join(
    store: MasterStore,
    stream_schema: pa.Schema,
    on: Sequence[tuple[str, str]] | Condition,
    *,
    algorithm: str | None = None,
    memory: str | int = "64MB",
    how: How = "inner",
    select: Sequence[str] | None = None,
    order: Order = "any",
    options: Options | None = None,
) -> Join:
    """A join of a stream of `stream_schema` with `store`, ready for tuples.

    `on` pairs stream columns with master columns, which must be the store's key; or it is a
    condition, `Between("price", "low", "high")` or `Within("price", 0.5, "list_price")`, whose
    first master column must be the key. `algorithm` None means `chybridjoin`, and `meshjoin` for a
    condition. `memory` bounds everything the join holds. `select` names the master columns to
    bring (None: all but key columns that have the stream's name). A master column whose name the
    stream already has gets the suffix `_master`. With `order` "stream" rows come out in the order
    of their stream tuples; those that wait for it take a quarter of the memory, then files.
    """
    options = options or Options()
    require_order(order, options.shedding)

    def opened(schema: pa.Schema, budget: int) -> SemiStreamJoin:
        name = algorithm or ("meshjoin" if isinstance(on, Condition) else "chybridjoin")
        return _open(store, schema, on, name, budget, how, select, options)

    budget = parse_bytes(memory)
    if order == "any":
        return opened(stream_schema, budget)
    names = store.schema.names
    return OrderedJoin(opened, stream_schema, names, budget_bytes=budget, how=how)


def _open(
    store: MasterStore,
    stream_schema: pa.Schema,
    on: Sequence[tuple[str, str]] | Condition,
    algorithm: str,
    budget: int,
    how: How,
    select: Sequence[str] | None,
    options: Options,
) -> SemiStreamJoin:
    known = algorithms()
    if algorithm not in known:
        raise unknown_name("algorithm", algorithm, known)
    chosen = known[algorithm]
    stream_schema = plain_schema(stream_schema)
    bounds = None
    if isinstance(on, Condition):
        bounds = _bounds(on, store, stream_schema, chosen)
        pairs: Sequence[tuple[str, str]] = [(on.column, on.master_key)]
        columns = master_columns(store.schema, select, ())
        store = store.select(tuple(dict.fromkeys((*columns, *on.master_columns))))
    else:
        pairs = _paired_with_key(store, on)
        check_columns(stream_schema, [ours for ours, _ in pairs], where="the stream")
        store.require([stream_schema.field(ours).type for ours, _ in pairs], pairs)
        columns = master_columns(store.schema, select, pairs)
        store = store.select(columns)
    front_share = chosen.front_share if options.front_share is None else options.front_share
    split = split_budget(
        budget,
        index_bytes=store.index_bytes + 8 * store.partition_count,
        partition_bytes=store.partition_bytes,
        front_share=front_share if chosen.front_share else 0.0,
        pinned_share=chosen.pinned_share if options.pinned_share is None else options.pinned_share,
    )
    statistics = JoinStatistics(algorithm, budget, store.row_count)
    front = None
    if split.front_stage:
        front = chosen.front_stage(store, split.front_stage, statistics)
    master_schema = pa.schema([store.schema.field(name) for name in columns])
    stream_width = sum(fixed_width(field.type) or 32 for field in stream_schema)
    emitter = Emitter(stream_schema, master_schema, how, statistics, stream_width + store.row_bytes)
    shed_store = None if options.shedding is None else options.shedding.store
    around = Surroundings(
        store,
        emitter,
        statistics,
        front,
        stream_schema,
        tuple(ours for ours, _ in pairs),
        shed_store,
        bounds,
    )
    disk = chosen.make_disk_phase(around, split, options)
    return SemiStreamJoin(
        around,
        disk,
        pairs,
        budget_bytes=budget,
        encode=None if bounds is None else bounds.encode,
        shedding=options.shedding,
    )


def _bounds(
    condition: Condition, store: MasterStore, stream_schema: pa.Schema, chosen: Algorithm
) -> Bounds:
    if not chosen.takes_conditions:
        able = ", ".join(each.name for each in algorithms().values() if each.takes_conditions)
        raise InputError(
            f"{chosen.name} joins on equal keys only; for {str(condition)!r} choose one of {able}"
        )
    check_columns(stream_schema, [condition.column], where="the stream")
    check_columns(store.schema, condition.master_columns, where=f"master {store.name!r}")
    if store.key != (condition.master_key,):
        raise InputError(
            f"master {store.name!r} has the key {', '.join(store.key)}, and rows with NULL there "
            f"are not in it: for {str(condition)!r} build it with the key {condition.master_key}"
        )
    return Bounds(condition, stream_schema, store.schema)


def _paired_with_key(
    store: MasterStore, on: Sequence[tuple[str, str]]
) -> tuple[tuple[str, str], ...]:
    by_master = {theirs: ours for ours, theirs in on}
    if len(by_master) != len(on) or set(by_master) != set(store.key):
        given = ", ".join(theirs for _, theirs in on)
        raise InputError(
            f"the join's master columns ({given}) are not the key of master {store.name!r} "
            f"({', '.join(store.key)}): join on exactly these"
        )
    return tuple((by_master[theirs], theirs) for theirs in store.key)
