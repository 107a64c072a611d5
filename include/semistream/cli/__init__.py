"""The command line: `semistream join`, `generate`, `algorithms`, `demo`."""

from __future__ import annotations


def main() -> int:
    """Run the command line; bad input ends with one line on stderr and exit code 2."""
    from semistream.cli.app import run

    return run()
