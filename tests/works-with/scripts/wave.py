"""Devito: a wave equation whose operator is generated C with MPI's halo exchanges."""

import json

import numpy as np
from devito import Eq, Grid, Operator, TimeFunction, norm, solve

grid = Grid(shape=(61, 57), extent=(1.0, 1.0))
field = TimeFunction(name="u", grid=grid, time_order=2, space_order=4)
field.data[0, 20:30, 20:35] = 1.0
field.data[1, 20:30, 20:35] = 1.0
operator = Operator([Eq(field.forward, solve(field.dt2 - field.laplace, field.forward))])
operator.apply(time_M=40, dt=0.004)
size = float(norm(field))
if grid.distributor.myrank == 0:
    print("RESULT", json.dumps({"norm": size, "ranks": grid.distributor.nprocs, "finite": bool(np.isfinite(size))}), flush=True)
