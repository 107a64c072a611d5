"""Compiled inner loops (numba), one topic a file; numpy arrays in, numpy arrays out.

Every kernel is compiled on first use and kept in numba's on-disk cache, so that a second process
starts without compiling.
"""
