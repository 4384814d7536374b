"""Compares reductions beyond the standard with the MPI's own results; prints how many the MPI refused."""

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
ranks, rank = world.size, world.rank
for comm in (world, MPI.COMM_SELF):
    comm.Set_errhandler(MPI.ERRORS_RETURN)
for _ in range(4):  # the first calls of a communicator go to the MPI
    world.Barrier()

ops = {name: getattr(MPI, name) for name in ("SUM", "PROD", "MIN", "MAX", "LAND", "LOR", "LXOR", "BAND", "BOR", "BXOR", "MAXLOC")}
types = [MPI.CHAR, MPI.WCHAR, MPI.BYTE, MPI.PACKED, MPI.DOUBLE, MPI.FLOAT, MPI.INT, MPI.C_BOOL, MPI.TWOINT]
refused = 0


def values_of(who, type_):
    if type_ in (MPI.DOUBLE, MPI.FLOAT):
        made = np.tile([0, 1.5, -2, 3], 32) * (who + 1)
        return made.astype("f8" if type_ == MPI.DOUBLE else "f4").view("u1").copy()
    if type_ == MPI.C_BOOL:
        return np.tile([0, 1], 128).astype("u1")
    return (np.arange(256 * 8) * (2 * who + 1)).astype("u1")


def alone(type_, op, count):
    """The MPI's own result for the values of all ranks in rank order; None if it refuses."""
    result = values_of(0, type_)
    for who in range(1, ranks):
        right = values_of(who, type_)
        try:
            MPI.Op.Reduce_local(op, [result, count, type_], [right, count, type_])
        except MPI.Exception:
            return None
        result = right
    return result


for type_ in types:
    count = values_of(0, type_).size // type_.Get_size()
    size = count * type_.Get_size()
    for name, op in ops.items():
        expected = alone(type_, op, count)
        got = np.zeros(values_of(0, type_).size, "u1")
        try:
            world.Allreduce([values_of(rank, type_), count, type_], [got, count, type_], op)
            assert expected is not None, f"{type_.name} {name} was not refused"
            assert (got[:size] == expected[:size]).all(), f"{type_.name} {name}: {got} and not {expected}"
        except MPI.Exception:
            assert expected is None, f"{type_.name} {name} was refused"
            refused += 1
print(f"beyond: ok, {refused} refused\n", end="", flush=True)
