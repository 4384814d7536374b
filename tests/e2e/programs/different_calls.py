"""Collective calls that differ on one rank, and calls that only seem to differ. The arguments name the case."""

import sys
import time

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
ranks, rank = world.size, world.rank
world.Set_errhandler(MPI.ERRORS_RETURN)
for _ in range(4):  # the first calls of a communicator go to the MPI
    world.Barrier()
other = rank == 1


def sums(count, type_=MPI.DOUBLE, op=MPI.SUM):
    size = count * type_.Get_extent()[1]
    world.Allreduce([bytearray(size), count, type_], [bytearray(size), count, type_], op)


def two_roots():
    world.Bcast(np.zeros(3), rank % 2)
    world.Barrier()


def gather_of_two_roots():
    world.Gather(np.zeros(3), np.zeros(3 * ranks) if rank == 1 - rank % 2 else None, 1 - rank % 2)
    world.Barrier()


def to_all(bytes_):
    world.Alltoall([bytearray(64 * ranks), bytes_, MPI.BYTE], [bytearray(64 * ranks), bytes_, MPI.BYTE])


different = {
    "count": lambda: sums(3 + rank),
    "long": lambda: sums(100_000 + rank),
    "type": lambda: sums(4, MPI.DOUBLE if other else MPI.FLOAT),
    "operation": lambda: sums(4, op=MPI.MAX if other else MPI.SUM),
    "meaning": lambda: sums(4, MPI.C_DOUBLE_COMPLEX if other else MPI.LONG_DOUBLE),
    "elsewhere": lambda: sums(4, MPI.INT.Create_contiguous(1100).Commit() if other else MPI.INT,
                              MPI.Op.Create(lambda left, right, _: None, True) if other else MPI.SUM),
    "root": two_roots,
    "gather": gather_of_two_roots,
    "broadcast": lambda: world.Bcast(np.zeros(3 if other else 4), 0),
    "alltoall": lambda: to_all(8 if other else 16),
    "collective": lambda: world.Barrier() if other else sums(3),
}


def same():
    """Signatures that match, though types and counts do not."""
    pair = MPI.INT.Create_contiguous(2).Commit()
    spread = MPI.INT.Create_vector(2, 1, 3).Commit()
    ints = np.arange(8, dtype="i4")
    for root in range(ranks):
        got = ints.copy() if rank == root else np.zeros(16, "i4")
        world.Bcast([got, 4, pair] if rank == root else [got, 8, MPI.INT], root)
        assert (got[:8] == ints).all(), got
        got = ints.copy() if rank == root else np.full(16, -1, "i4")
        world.Bcast([got, 4, MPI.INT] if rank == root else [got, 2, spread], root)
        assert rank == root or (got[[0, 3, 4, 7]] == ints[:4]).all(), got
        packed = bytearray(16)
        if rank == root:
            MPI.INT.Pack(ints[:4], packed, 0, world)
        got = np.zeros(4, "i4")
        world.Bcast([packed, 16, MPI.PACKED] if rank == root else [got, 4, MPI.INT], root)
        assert rank == root or (got == ints[:4]).all(), got
        all_ = np.zeros(2 * ranks, "i4")
        world.Gather([ints, 1, pair] if other else [ints, 2, MPI.INT], [all_, 8, MPI.BYTE] if rank == root else None, root)
        assert rank != root or (all_.reshape(ranks, 2) == ints[:2]).all(), all_
    all_ = np.zeros(2 * ranks, "i4")
    world.Allgather([ints, 1, pair] if other else [ints, 8, MPI.BYTE], [all_, 2, MPI.INT] if other else [all_, 1, pair])
    assert (all_.reshape(ranks, 2) == ints[:2]).all(), all_
    given = np.repeat(ints[:2], ranks).reshape(2, ranks).T.copy()
    world.Alltoall([given, 1, pair] if other else [given, 2, MPI.INT], [all_, 2, MPI.INT] if other else [all_, 8, MPI.BYTE])
    assert (all_.reshape(ranks, 2) == ints[:2]).all(), all_
    for type_ in (MPI.LONG, MPI.INT64_T, MPI.LONG_LONG):  # one type by other names
        mine = type_ if other else MPI.LONG
        sum_ = np.zeros(3, "i8")
        world.Allreduce([np.ones(3, "i8"), 3, mine], [sum_, 3, mine], MPI.SUM)
        assert (sum_ == ranks).all(), sum_
    element = (MPI.DOUBLE.Create_contiguous(2) if other else MPI.DOUBLE.Create_vector(2, 1, 1)).Commit()
    def add(left, right, _):
        right = np.frombuffer(right)
        right += np.frombuffer(left)
    adding = MPI.Op.Create(add, True)
    sum_ = np.zeros(2)
    world.Allreduce([np.ones(2), 1, element], [sum_, 1, element], adding)
    assert (sum_ == ranks).all(), sum_


if sys.argv[1] == "same":
    same()
    print("same: ok\n", end="", flush=True)
else:
    try:
        different[sys.argv[1]]()
        world.Barrier()
        print("done in silence\n", end="", flush=True)
    except MPI.Exception as error:
        print(f"told: {error.Get_error_class() in (MPI.ERR_TRUNCATE, MPI.ERR_OTHER)}\n", end="", flush=True)
    if sys.argv[1] == "elsewhere":
        time.sleep(0.5)  # an mpiexec that ends a job at once may not pass on what was printed just before
        world.Abort(3)  # one rank is in the MPI's own call and gets no error
