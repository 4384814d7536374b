"""Reductions of every kind of type that MPI has operations for, and operations that it has none for."""

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
ranks, rank = world.size, world.rank
everyone = np.arange(ranks)
for _ in range(4):  # the first calls of a communicator go to the MPI
    world.Barrier()


def reduced(values, type_, op, like=None):
    result = np.zeros_like(values if like is None else like)
    world.Allreduce([values, type_], [result, type_], op)
    return result


def pairs(value, index):
    """700 of MPI_DOUBLE_INT, which has a hole after the index."""
    both = np.zeros(700, dtype={"names": ["value", "index"], "formats": ["f8", "i4"], "itemsize": 16})
    both["value"], both["index"] = value, index
    return both


assert (reduced(np.full(1000, 1 + 1j * rank), MPI.C_DOUBLE_COMPLEX, MPI.SUM) == ranks + 1j * everyone.sum()).all()
assert (reduced(np.full(77, rank + 1, np.longdouble), MPI.LONG_DOUBLE, MPI.PROD) == np.prod(everyone + 1)).all()
assert reduced(np.full(100, rank == 1), MPI.C_BOOL, MPI.LOR).all()
assert not reduced(np.full(100, rank == 1), MPI.C_BOOL, MPI.LAND).any()
assert (reduced(np.full(999, 1 << rank, "u1"), MPI.BYTE, MPI.BXOR) == (1 << ranks) - 1).all()
got = pairs(-1, -1)
world.Allreduce([pairs(rank % 2, rank), 700, MPI.DOUBLE_INT], [got, 700, MPI.DOUBLE_INT], MPI.MAXLOC)
assert (got["value"] == 1).all() and (got["index"] == 1).all(), got
got = pairs(rank % 2, rank)
world.Allreduce(MPI.IN_PLACE, [got, 700, MPI.DOUBLE_INT], MPI.MINLOC)
assert (got["value"] == 0).all() and (got["index"] == 0).all(), got

# An operation of the program that is not commutative, on a type with holes, which stay as they are.
with_holes = MPI.INT.Create_vector(2, 1, 3).Commit()


def join(left, right, _):
    left, right = np.frombuffer(left, "i4"), np.frombuffer(right, "i4")
    right[:] = 10 * left + right


joining = MPI.Op.Create(join, False)
got = np.full(8, -1, "i4")
world.Allreduce([np.full(8, rank + 1, "i4"), 2, with_holes], [got, 2, with_holes], joining)
joined = int("".join(str(i + 1) for i in range(ranks)))
assert (got[[0, 3, 4, 7]] == joined).all() and (got[[1, 2, 5, 6]] == -1).all(), got

world.Set_errhandler(MPI.ERRORS_RETURN)
for type_, op in ((MPI.FLOAT, MPI.BAND), (MPI.DOUBLE_INT, MPI.SUM), (MPI.C_DOUBLE_COMPLEX, MPI.MAX), (with_holes, MPI.SUM)):
    try:
        world.Allreduce([bytearray(64), 2, type_], [bytearray(64), 2, type_], op)
        raise AssertionError(f"no error for {type_.name}")
    except MPI.Exception as error:
        assert error.Get_error_class() in (MPI.ERR_OP, MPI.ERR_TYPE), error
assert reduced(np.ones(1), MPI.DOUBLE, MPI.SUM) == ranks
print("reductions: ok", flush=True)
