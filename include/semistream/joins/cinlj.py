"""CINLJ: the front stage before index look-ups (paper 000, section 3.3)."""

from __future__ import annotations

from semistream.joins.inlj import inlj
from semistream.joins.registry import algorithm

algorithm("cinlj", "front stage, then index look-ups", front_share=0.5)(inlj)
