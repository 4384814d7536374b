"""Random collectives of the kinds that a switch does, against the exact reference: reals come in rank order.

    switch_calls.py SEED CALLS SECONDS

Ends after so many calls, or after so many seconds. Rank 0 says how far it is.
"""
import random
import sys
import time

import numpy as np
from mpi4py import MPI

EARLY = 8  # the first calls of a communicator are the MPI's, in an order of its own
OPS = {"f": [(MPI.SUM, np.add), (MPI.MAX, np.maximum), (MPI.MIN, np.minimum)],
       "i": [(MPI.SUM, np.add), (MPI.MAX, np.maximum), (MPI.BXOR, np.bitwise_xor)]}
SIZES = [1, 2, 3, 8, 100, 1000, 3001, 20000]

world = MPI.COMM_WORLD
seed, calls, seconds = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
draw = random.Random(seed)


def brought(call, rank, kind, count):
    source = np.random.default_rng([seed, call, rank])
    if kind[0] == "f":
        return source.standard_normal(count).astype(kind)
    return source.integers(-1000, 1000, count).astype(kind)


def reduced(call, ranks, kind, count, function):
    result = brought(call, ranks[0], kind, count)
    for rank in ranks[1:]:
        result = function(result, brought(call, rank, kind, count))
    return result


def make(call, comm, ranks):
    """`ranks`: those of `comm`, by their numbers in the world."""
    name = draw.choice(["Barrier", "Bcast", "Allgather", "Reduce", "Reduce_scatter_block", "Allreduce"])
    kind, count, root = draw.choice(["f4", "f8", "i4", "i8"]), draw.choice(SIZES), draw.randrange(world.size)
    op, function = draw.choice(OPS[kind[0]])
    root %= comm.size
    own = brought(call, world.rank, kind, count)
    wanted = got = np.zeros(0)
    if name == "Barrier":
        comm.Barrier()
    elif name == "Bcast":
        got, wanted = own, brought(call, ranks[root], kind, count)
        comm.Bcast(got, root)
    elif name == "Allgather":
        got, wanted = np.zeros(count * comm.size, kind), np.concatenate([brought(call, r, kind, count) for r in ranks])
        comm.Allgather(own, got)
    elif name == "Reduce_scatter_block":
        every, got = brought(call, world.rank, kind, count * comm.size), np.zeros(count, kind)
        comm.Reduce_scatter_block(every, got, op)
        wanted = reduced(call, ranks, kind, count * comm.size, function)[comm.rank * count:(comm.rank + 1) * count]
    elif name == "Reduce":
        got = np.zeros(count, kind)
        comm.Reduce(own, got, op, root)
        wanted = reduced(call, ranks, kind, count, function) if comm.rank == root else got
    else:
        got, wanted = np.zeros(count, kind), reduced(call, ranks, kind, count, function)
        comm.Allreduce(own, got, op)
    assert got.tobytes() == wanted.tobytes(), f"call {call}, {name} of {count} {kind}: rank {world.rank} of {comm.size}"


def main():
    half = world.Split(world.rank % 2)
    both = [(world, list(range(world.size))), (half, list(range(world.rank % 2, world.size, 2)))]
    for comm, _ in both:
        for _ in range(EARLY):
            comm.Allreduce(np.ones(1, "i4"), np.zeros(1, "i4"))
    end = time.monotonic() + seconds
    for call in range(calls):
        make(call, *both[draw.randrange(2)])
        if call % 5 == 0:
            goes_on = np.array([time.monotonic() < end])
            world.Bcast(goes_on)
            if world.rank == 0:
                print(f"call {call}", flush=True)
            if not goes_on[0]:
                break
    print("switch calls: ok", flush=True)


main()
