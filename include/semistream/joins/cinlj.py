"""CINLJ: the front stage before index look-ups (paper 000, section 3.3)."""

from __future__ import annotations

from semistream.joins.inlj import inlj
from semistream.joins.registry import algorithm

# Tuples do not wait for company: the buffer needs room for a batch, the rest serves better here.
algorithm("cinlj", "front stage, then index look-ups", front_share=0.85)(inlj)
