"""What every benchmark gives back: rows of numbers, and verdicts against targets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Verdict(NamedTuple):
    """A measured value beside its target; `ok` is None where there is nothing to reach."""

    text: str
    value: float | None
    target: str
    ok: bool | None


@dataclass(slots=True)
class BenchResult:
    """A table (`columns` orders the keys of `rows`) and what it says about the targets.

    The first `identity` columns tell the rows apart: a table too wide for its page repeats them.
    """

    name: str
    title: str
    columns: list[str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    identity: int = 1

    @property
    def ok(self) -> bool:
        return all(verdict.ok is not False for verdict in self.verdicts)

    def at_least(self, text: str, value: float, least: float) -> None:
        self.verdicts.append(Verdict(text, round(value, 4), f"≥ {least:g}", value >= least))

    def at_most(self, text: str, value: float, most: float) -> None:
        self.verdicts.append(Verdict(text, round(value, 4), f"≤ {most:g}", value <= most))

    def note(self, text: str, value: float | None) -> None:
        self.verdicts.append(Verdict(text, None if value is None else round(value, 4), "", None))

    def to_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        return {
            "name": self.name,
            "title": self.title,
            "ok": self.ok,
            "rows": self.rows,
            "verdicts": [verdict._asdict() for verdict in self.verdicts],
        }
