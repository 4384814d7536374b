"""Heat spreading over a square plate, on any number of ranks.

An ordinary mpi4py program: nothing in it knows of Penstock. The plate is divided into a grid of
tiles, one for each rank; after each time step the ranks exchange the edges of their tiles. The plate starts
as sin(pi x) sin(pi y) with its border held at zero, for which the answer is known: the shape stays,
and its height falls by the same factor each step.

    mpiexec -n 4 python examples/heat.py            with the MPI's own transport
    penstock run -n 4 -- python examples/heat.py    through a pool
"""

import argparse
import math
import sys

import numpy as np
from mpi4py import MPI


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--points", type=int, default=240, help="inner points of a side")
    parser.add_argument("--steps", type=int, default=600)
    return parser.parse_args()


def share(points, parts, index):
    """First point and number of points of part `index`."""
    size, longer = divmod(points, parts)
    return index * size + min(index, longer), size + (1 if index < longer else 0)


class Tile:
    """One rank's part of the plate, with a border of one point that holds its neighbours' edges."""

    def __init__(self, comm, points):
        self.comm = comm.Create_cart(MPI.Compute_dims(comm.size, 2))
        self.spacing = 1.0 / (points + 1)
        rows, columns = self.comm.dims
        row, column = self.comm.coords
        self.top, self.height = share(points, rows, row)
        self.left, self.width = share(points, columns, column)
        x = (np.arange(self.top, self.top + self.height) + 1) * self.spacing
        y = (np.arange(self.left, self.left + self.width) + 1) * self.spacing
        self.shape = np.outer(np.sin(math.pi * x), np.sin(math.pi * y))
        self.heat = np.zeros((self.height + 2, self.width + 2))
        self.heat[1:-1, 1:-1] = self.shape
        self.column = MPI.DOUBLE.Create_vector(self.height, 1, self.width + 2).Commit()

    def exchange_edges(self):
        up, down = self.comm.Shift(0, 1)
        left, right = self.comm.Shift(1, 1)
        heat = self.heat
        self.comm.Sendrecv(heat[1, 1:-1], dest=up, recvbuf=heat[-1, 1:-1], source=down)
        self.comm.Sendrecv(heat[-2, 1:-1], dest=down, recvbuf=heat[0, 1:-1], source=up)
        edge = self.edge_column
        self.comm.Sendrecv(edge(1), dest=left, recvbuf=edge(self.width + 1), source=right)
        self.comm.Sendrecv(edge(self.width), dest=right, recvbuf=edge(0), source=left)

    def edge_column(self, index):
        """The inner points of a column, which lie a row apart."""
        first = self.heat.shape[1] + index
        return [self.heat.reshape(-1)[first:], 1, self.column]

    def step(self, rate):
        self.exchange_edges()
        h = self.heat
        around = h[:-2, 1:-1] + h[2:, 1:-1] + h[1:-1, :-2] + h[1:-1, 2:]
        h[1:-1, 1:-1] += rate * (around - 4 * h[1:-1, 1:-1])

    def largest_error(self, factor):
        error = float(np.abs(self.heat[1:-1, 1:-1] - factor * self.shape).max())
        return self.comm.allreduce(error, op=MPI.MAX)


def main():
    options = arguments()
    comm = MPI.COMM_WORLD
    tile = Tile(comm, options.points)
    rate = 0.24
    comm.Barrier()
    start = MPI.Wtime()
    for _ in range(options.steps):
        tile.step(rate)
    seconds = comm.allreduce(MPI.Wtime() - start, op=MPI.MAX)

    # The error of the scheme is exact but for rounding; that of the equation depends on the
    # spacing.
    per_step = 1 - 8 * rate * math.sin(math.pi * tile.spacing / 2) ** 2
    time = options.steps * rate * tile.spacing**2
    error = tile.largest_error(per_step**options.steps)
    physical = tile.largest_error(math.exp(-2 * math.pi**2 * time))
    ok = error < 1e-11 and physical < 20 * tile.spacing**2
    if comm.rank == 0:
        rows, columns = tile.comm.dims
        print(f"heat: {'ok' if ok else 'WRONG'}: {comm.size} ranks as {rows} x {columns}, "
              f"{options.points}^2 points, {options.steps} steps in {seconds:.2f} s, "
              f"error {error:.1e} of the scheme, {physical:.1e} of the equation", flush=True)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
