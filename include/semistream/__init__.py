"""semistream: joins a fast stream with a master too big for memory, inside a byte budget."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from semistream.joins.conditions import Between, Within
    from semistream.joins.core import SemiStreamJoin
    from semistream.joins.join import Join
    from semistream.joins.outputs import JoinOutput
    from semistream.joins.registry import algorithms, open_join
    from semistream.stores.arrow_build import build_arrow_store
    from semistream.stores.arrow_store import ArrowStore

__version__ = "0.1.0"
__all__ = [
    "ArrowStore",
    "Between",
    "Join",
    "JoinOutput",
    "SemiStreamJoin",
    "Within",
    "algorithms",
    "build_arrow_store",
    "open_join",
]

# Imported on first use: `import semistream` must cost nothing where only its types are needed.
_HOMES = {
    "ArrowStore": "semistream.stores.arrow_store",
    "Between": "semistream.joins.conditions",
    "Join": "semistream.joins.join",
    "JoinOutput": "semistream.joins.outputs",
    "SemiStreamJoin": "semistream.joins.core",
    "Within": "semistream.joins.conditions",
    "algorithms": "semistream.joins.registry",
    "build_arrow_store": "semistream.stores.arrow_build",
    "open_join": "semistream.joins.registry",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'semistream' has no attribute {name!r}")
