"""The join algorithms: one loop, one front stage, one file per algorithm."""
