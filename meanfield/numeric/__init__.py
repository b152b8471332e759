"""Numbers: generated kernels for recursions and expressions, and the runs they make.

propagation    `mf.propagate`: a network over depth, for one setting or a grid
runs, gram_runs    what comes out: in (q, p), of n tokens that are told apart, of two inputs of unequal norm
outlines    what a run holds, before it has run
chunks, sweeps, sweep_store    grids larger than memory: lazy dask arrays, a Zarr store that is taken up where it was left
evaluation     `mf.evaluate`: an expression at numbers, arrays, or to any number of digits
methods, programs, summation    which way each point is answered: a closed form, quadrature, more digits; and its bound
readers, tables, table_panels, lookup    moments from tables in the place of quadrature at every layer
lowering, printing, kernels, trajectory, store    from expressions to source that is compiled once and kept
"""
