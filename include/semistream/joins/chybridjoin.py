"""CHYBRIDJOIN: the front stage before HYBRIDJOIN (paper 000, section 3.2)."""

from __future__ import annotations

from semistream.joins.hybridjoin import hybridjoin
from semistream.joins.registry import algorithm

algorithm("chybridjoin", "front stage, then HYBRIDJOIN", front_share=0.25)(hybridjoin)
