"""`semistream check`: is a pipeline spec right, and what will run?"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from semistream.errors import InputError
from semistream.sizes import format_bytes


def check(
    spec: Annotated[Path | None, typer.Argument(help="A pipeline spec, YAML")] = None,
    home: Annotated[
        Path | None, typer.Option(help="Folder of all pipelines [env: SEMISTREAM_HOME]")
    ] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object")] = False,
) -> None:
    """Validate a pipeline spec and print what it says."""
    from semistream.pipeline.spec_file import load_spec, spec_json_schema

    if schema:
        print(json.dumps(spec_json_schema(), indent=2))
        return
    if spec is None:
        raise InputError("check needs a spec, for example include/pipelines/sales.yaml")
    loaded = load_spec(spec, home=home)
    content: dict[str, Any] = loaded.model_dump(by_alias=True, mode="json")
    if as_json:
        print(json.dumps({"file": str(spec), "home": str(loaded.home), "spec": content}))
        return
    table = Table(title=f"{loaded.name}, home {loaded.home}")
    table.add_column("what")
    table.add_column("value", overflow="fold")
    table.add_row("stream", f"{loaded.stream.format}: {', '.join(loaded.stream.columns)}")
    for join in loaded.joins:
        pairs = ", ".join(f"{ours} = {theirs}" for ours, theirs in join.on.items())
        brought = ", ".join(join.select) if join.select else "every column"
        table.add_row(f"join {join.master}", f"on {pairs}; brings {brought}")
    for name, expression in loaded.compute.items():
        table.add_row(f"compute {name}", expression)
    for output, folder in sorted(loaded.outputs().items()):
        table.add_row(output, folder)
    memory = format_bytes(loaded.engine.memory)
    table.add_row("engine", f"{loaded.engine.algorithm}, {memory} per worker")
    Console().print(table)
