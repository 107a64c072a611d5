"""Commands and their options; the work is done elsewhere."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from semistream.cli.bench import bench
from semistream.cli.check import check
from semistream.errors import InputError, SemistreamError

# typer.BadParameter is the public end of the family of usage errors; this is its root.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]

_HELP = "Join a fast stream with a master too big for memory, inside a byte budget."

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=_HELP
)


def run() -> int:
    """The program: 0 when done, 2 for bad input, 1 when it may be tried again."""
    try:
        result = typer.main.get_command(app).main(standalone_mode=False)
    except _UsageError as error:
        if str(error):
            print(f"semistream: {error}", file=sys.stderr)
        return 2
    except typer.Abort:
        print("semistream: interrupted", file=sys.stderr)
        return 130
    except SemistreamError as error:
        print(f"semistream: {error}", file=sys.stderr)
        return 2 if isinstance(error, InputError) else 1
    return result if isinstance(result, int) else 0


@app.command()
def join(
    stream: Annotated[
        str, typer.Option(help="Parquet, CSV or JSON lines, or mysql://user@host/db/table")
    ],
    master: Annotated[str, typer.Option(help="Likewise, or the folder of a built store")],
    out: Annotated[Path, typer.Option(help="Folder for joined/, unmatched/ and shed/")],
    on: Annotated[str | None, typer.Option(help="COL[=MASTERCOL][,…]")] = None,
    condition: Annotated[
        str | None,
        typer.Option(
            help="Instead of --on: 'COL between LOW and HIGH' or 'COL within 0.5 of MASTERCOL'"
        ),
    ] = None,
    algorithm: Annotated[str, typer.Option(help="auto or a name from `algorithms`")] = "auto",
    memory: Annotated[str, typer.Option(help="Budget, for example 64MB")] = "64MB",
    how: Annotated[str, typer.Option(help="inner or left")] = "inner",
    select: Annotated[str | None, typer.Option(help="Master columns to bring: COL[,…]")] = None,
    order: Annotated[str, typer.Option(help="any, or stream: rows in stream order")] = "any",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Join a stream with a master and write the rows as Parquet."""
    from semistream.cli.join import join_files
    from semistream.cli.report import print_statistics

    statistics = join_files(
        stream=stream,
        master=master,
        on=on,
        condition=condition,
        out=out,
        algorithm=algorithm,
        memory=memory,
        how=how,
        select=select,
        order=order,
    )
    if as_json:
        print(json.dumps(statistics.to_dict()))
    else:
        print_statistics(statistics, Console())


@app.command()
def generate(
    workload: Annotated[str, typer.Argument(help="zipf, bursty, tpch, locality or weather")],
    master_rows: Annotated[int, typer.Option(help="Rows of the master")],
    stream_rows: Annotated[int, typer.Option(help="Rows of the stream")],
    out: Annotated[Path, typer.Option(help="Folder for master/ and stream/")],
    skew: Annotated[float, typer.Option(help="Zipf exponent, 0 to 1.2")] = 1.0,
    seed: Annotated[int, typer.Option(help="Same seed, same rows")] = 0,
    placement: Annotated[
        str | None, typer.Option(help="Which keys are frequent: random, or rank (the lowest)")
    ] = None,
) -> None:
    """Write a workload as Parquet."""
    from semistream.workloads import make_workload, write_workload

    own = {} if placement is None else {"placement": placement}
    made = make_workload(
        workload, master_rows=master_rows, stream_rows=stream_rows, skew=skew, seed=seed, **own
    )
    write_workload(made, out, None)
    pairs = zip(made.stream_key, made.master_key, strict=True)
    on = ",".join(f"{ours}={theirs}" for ours, theirs in pairs)
    print(f"{workload}: {master_rows:,} master rows and {stream_rows:,} stream rows in {out}")
    print(f"join them with: semistream join --stream {out}/stream --master {out}/master --on {on}")


app.command()(bench)
app.command()(check)


@app.command()
def algorithms() -> None:
    """List the join algorithms."""
    from semistream.joins.registry import algorithms as known

    for name, each in known().items():
        print(f"{name:<14}{each.summary}")


@app.command()
def demo(
    stream_rows: Annotated[int, typer.Option(help="Sales to join")] = 1_000_000,
    master_rows: Annotated[int, typer.Option(help="Products to join with")] = 500_000,
    memory: Annotated[str, typer.Option(help="Budget")] = "8MB",
    seed: Annotated[int, typer.Option(help="Same seed, same rows")] = 7,
) -> None:
    """Join a bursty sales stream with a product master, live."""
    from semistream.cli.demo import run_demo

    run_demo(stream_rows, master_rows, memory, seed, Console())
