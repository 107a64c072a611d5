"""One root exception with two branches: *fix your input* and *try again*.

Callers decide by branch, never by message: the command line turns `InputError` into exit 2,
a scheduler retries `TransientError` and fails at once on everything else.
"""

from __future__ import annotations

from collections.abc import Iterable


class SemistreamError(Exception):
    """Root of everything semistream raises on purpose."""


class InputError(SemistreamError):
    """The input must change before another attempt can succeed."""


class TransientError(SemistreamError):
    """The same attempt may succeed later."""


class BudgetTooSmall(InputError):
    """The byte budget cannot hold even the smallest working set."""

    def __init__(self, message: str, *, smallest_bytes: int) -> None:
        super().__init__(message)
        self.smallest_bytes = smallest_bytes


class KeyTypeMismatch(InputError):
    """Stream and master key types cannot be compared without loss."""


class StoreCorrupt(InputError):
    """A master store's files do not hold what its manifest promises."""


class StoreUnavailable(TransientError):
    """A master store did not answer; nothing is known about the keys asked for."""


def unknown_name(kind: str, value: object, known: Iterable[str]) -> InputError:
    """The error for a name that is not among the known ones, built from what there is."""
    names = ", ".join(known) or "(none)"
    return InputError(f"unknown {kind} {str(value)!r}: there are {names}")
