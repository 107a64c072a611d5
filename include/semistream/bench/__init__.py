"""Benchmarks, one module per name of `semistream bench`, and the private server they measure on."""
