"""Uses of windows beyond plain puts: several at once, requests, types, and invalid arguments.

usage: window_mixture.py, 2 ranks or more. A rank's neighbours are the next and the one before.
"""
import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
right, left = (rank + 1) % ranks, (rank - 1) % ranks
CELLS = 64
origins = []


def allocate(cells=CELLS, unit=8, kind="i8"):
    window = MPI.Win.Allocate(cells * unit, unit, comm=comm)
    window.Set_errhandler(MPI.ERRORS_RETURN)
    memory = np.frombuffer(window.tomemory(), kind)
    window.Lock(rank, MPI.LOCK_EXCLUSIVE)
    memory[:] = 0
    window.Unlock(rank)
    comm.Barrier()
    return window, memory


def expect(found, wanted, what):
    assert np.array_equal(found, wanted), f"rank {rank}, {what}: {found}, not {wanted}"


def many(values, kind="i8"):
    """An array that lives until the program ends: an operation may want it until its epoch does."""
    origins.append(np.array(values, kind))
    return origins[-1]


def one(value, kind="i8"):
    return many([value], kind)


def overlapping_epochs():
    """Post and start on one window while another is locked, and a fence on a third."""
    windows, memories = zip(*(allocate() for _ in range(3)))
    a, b, c = windows
    neighbours = comm.group.Incl(sorted({left, right}))
    c.Fence()
    for number in range(5):
        a.Post(neighbours)
        a.Start(neighbours)
        b.Lock(right, MPI.LOCK_EXCLUSIVE)
        a.Put(one(100 * rank + number), right, 0)
        b.Put(one(200 * rank + number), right, 1)
        c.Put(one(300 * rank + number), right, 2)
        b.Accumulate(one(1), right, 3)
        a.Complete()
        b.Unlock(right)
        a.Wait()
        c.Fence()
        expect(memories[0][0], 100 * left + number, "put between start and complete")
        expect(memories[2][2], 300 * left + number, "put between fences")
        b.Lock(rank, MPI.LOCK_SHARED)
        expect(memories[1][[1, 3]], [200 * left + number, number + 1], "put under a lock")
        b.Unlock(rank)
        comm.Barrier()
    for window in windows:
        window.Free()


def to_oneself():
    window, memory = allocate()
    got, old = np.zeros(4, "i8"), np.zeros(1, "i8")
    window.Fence()
    window.Put(many([0, 1, 2, 3]), rank, 8)
    window.Get(got, rank, 8)
    window.Accumulate(many(4 * [10]), rank, 8)
    window.Fetch_and_op(one(3), old, rank, 8)
    window.Fence()
    expect(got, [0, 1, 2, 3], "got from oneself")
    expect(memory[8:12], [13, 11, 12, 13], "put to oneself")
    expect(old[0], 10, "fetched from oneself")
    window.Lock(rank, MPI.LOCK_EXCLUSIVE)
    window.Compare_and_swap(one(-1), one(13), old, rank, 8)
    memory[0] = 42  # by a store, between the operations
    window.Flush(rank)
    window.Unlock(rank)
    expect([old[0], memory[8], memory[0]], [13, -1, 42], "swapped with oneself")
    window.Free()


def requests():
    window, memory = allocate()
    got, old = np.zeros(2, "i8"), np.zeros(2, "i8")
    window.Lock_all()
    window.Rput(many([5, 6]), right, 0).Wait()
    window.Flush(right)
    window.Raccumulate(many([10, 20]), right, 0).Wait()
    window.Flush(right)
    fetching = window.Rget_accumulate(many([100, 200]), old, right, 0)
    while not fetching.Test():
        pass
    window.Flush(right)
    asked = window.Rget(got, right, 0)
    MPI.Request.Waitall([asked, window.Rput(one(9), right, 5)])
    window.Unlock_all()
    expect(old, [15, 26], "Rget_accumulate")
    expect(got, [115, 226], "Rget")
    comm.Barrier()
    window.Lock(rank, MPI.LOCK_SHARED)
    expect(memory[[0, 1, 5]], [115, 226, 9], "after requests")
    window.Unlock(rank)
    window.Free()


INTEGERS = ["SIGNED_CHAR", "UNSIGNED_CHAR", "SHORT", "UNSIGNED_SHORT", "INT", "UNSIGNED", "LONG", "UNSIGNED_LONG",
            "LONG_LONG", "UNSIGNED_LONG_LONG", "INT8_T", "UINT8_T", "INT16_T", "UINT16_T", "INT32_T", "UINT32_T",
            "INT64_T", "UINT64_T", "AINT", "OFFSET", "COUNT"]
FLOATS = ["FLOAT", "DOUBLE", "LONG_DOUBLE"]


def predefined_types():
    """All ranks add to one counter; then all try to swap it, and one succeeds."""
    window, _ = allocate(CELLS, 16, "u1, 15u1")
    for place, name in enumerate(INTEGERS + FLOATS):
        datatype = getattr(MPI, name)
        kind = np.dtype(datatype.typechar if name in FLOATS else
                        f"{'u' if name.startswith('U') else 'i'}{datatype.Get_size()}")
        old, swapped = np.zeros(1, kind), np.zeros(1, kind)
        window.Lock_all()
        window.Fetch_and_op([one(rank + 1, kind), datatype], [old, datatype], 0, place, MPI.SUM)
        window.Unlock_all()
        comm.Barrier()
        total = ranks * (ranks + 1) // 2
        if name in INTEGERS:
            window.Lock_all()
            window.Compare_and_swap([one(rank + 1, kind), datatype], [one(total, kind), datatype],
                                    [swapped, datatype], 0, place)
            window.Unlock_all()
            winners = [who for who, won in enumerate(comm.allgather(swapped[0] == total)) if won]
            assert len(winners) == 1, f"{name}: ranks {winners} have swapped"
            total = winners[0] + 1
        window.Lock(0, MPI.LOCK_SHARED)
        window.Fetch_and_op([old, datatype], [old, datatype], 0, place, MPI.NO_OP)
        window.Unlock(0)
        assert old[0] == total, f"{name}: {old[0]}, not {total}"
    window.Free()


def pair_types():
    for name, kind in (("INT_INT", "i4, i4"), ("FLOAT_INT", "f4, i4"), ("DOUBLE_INT", "f8, i4"),
                       ("LONG_INT", "i8, i4"), ("SHORT_INT", "i2, i4")):
        datatype = getattr(MPI, name, None) or MPI.TWOINT
        layout = np.dtype(kind, align=True)
        extent = datatype.Get_extent()[1]
        assert extent == layout.itemsize, f"{name}: {extent} bytes, not {layout.itemsize}"
        window, _ = allocate(4, extent, layout)
        mine = np.array([(rank, rank), (ranks - rank, rank)], layout)
        window.Fence()
        window.Accumulate([mine, 2, datatype], 0, (0, 2, datatype), MPI.MAXLOC)
        window.Fence()
        found = np.zeros(2, layout)
        window.Get([found, 2, datatype], 0, (0, 2, datatype))
        window.Fence()
        expect(found.tolist(), [(ranks - 1, ranks - 1), (ranks, 0)], f"{name} with MAXLOC")
        window.Free()


def derived_types():
    """Columns of a matrix into rows of another, and a block into a block."""
    side = 8
    window, memory = allocate(side * side)
    matrix = (np.arange(side * side) + 1000 * rank).reshape(side, side)
    theirs = (np.arange(side * side) + 1000 * left).reshape(side, side)
    column = MPI.INT64_T.Create_vector(side, 1, side).Commit()
    block = MPI.INT64_T.Create_subarray([side, side], [3, 2], [4, 5]).Commit()
    inner = MPI.INT64_T.Create_subarray([side, side], [2, 3], [1, 1]).Commit()
    got = np.zeros((side, side), "i8")
    window.Fence()
    window.Put([matrix.ravel()[1:], 1, column], right, (2 * side, side, MPI.INT64_T))
    window.Put([matrix, 1, block], right, (0, 1, inner))
    window.Fence()
    there = memory.reshape(side, side)
    wanted = np.zeros((side, side), "i8")
    wanted[2] = theirs[:, 1]
    wanted[1:3, 1:4] = theirs[4:7, 5:7].reshape(2, 3)
    known = wanted.copy()
    known[2, 1:4] = there[2, 1:4]  # both were put there, in either order
    expect(there, known, "put by derived types")
    window.Fence()
    window.Accumulate([matrix, 1, block], right, (0, 1, block), MPI.REPLACE)
    window.Fence()
    window.Get([got, 1, block], right, (0, 1, block))
    window.Fence()
    expect(got[4:7, 5:7], matrix[4:7, 5:7], "got by derived types")
    expect(got[:4], 0 * got[:4], "beside what was got")
    for made in (column, block, inner):
        made.Free()
    window.Free()


def testing():
    window, memory = allocate()
    neighbours = comm.group.Incl(sorted({left, right}))
    for number in range(20):
        window.Post(neighbours)
        window.Start(neighbours)
        window.Put(one(50 * rank + number), right, 0)
        window.Complete()
        while not window.Test():
            pass
        expect(memory[0], 50 * left + number, "after MPI_Win_test")
    window.Free()


def nobody():
    window, memory = allocate()
    value = one(77)
    window.Fence()
    window.Put(value, MPI.PROC_NULL)
    window.Get(value, MPI.PROC_NULL)
    window.Accumulate(value, MPI.PROC_NULL)
    window.Fetch_and_op(one(1), value, MPI.PROC_NULL)
    window.Rput(value, MPI.PROC_NULL).Wait()
    window.Fence(MPI.MODE_NOSUCCEED)
    window.Lock(MPI.PROC_NULL)
    window.Flush(MPI.PROC_NULL)
    window.Unlock(MPI.PROC_NULL)
    expect([value[0], memory.any()], [77, False], "operations with nobody")
    window.Free()


def wrong(window, says, call, *arguments, kind=None):
    """The call fails with an error of this class that says all of these. Gives its code."""
    try:
        call(*arguments)
    except MPI.Exception as error:
        for part in says:
            assert part in error.error_string, f"{error.error_string!r} does not say {part!r}"
        if kind is not None:
            expect(error.error_class, kind, f"the class of {error.error_string!r}")
        return error.error_code
    raise AssertionError(f"no error: {says}")


def errors():
    window, _ = allocate()
    value = one(1)
    wrong(window, ["no epoch", f"rank {right}", "MPI_Win_lock"], window.Put, value, right)
    wrong(window, [f"rank {right} is not locked", "MPI_Win_lock first"], window.Unlock, right)
    wrong(window, [f"rank {right} is not locked"], window.Flush, right)
    wrong(window, ["no access epoch", "MPI_Win_start first"], window.Complete)
    wrong(window, ["not exposed", "MPI_Win_post first"], window.Wait)
    window.Lock(right)
    wrong(window, [f"{8 * CELLS - 8} to {8 * CELLS + 8}", f"{8 * CELLS} bytes", f"rank {right}"],
          window.Put, many([0, 0]), right, CELLS - 1)
    wrong(window, [f"displacement {1 << 61}", f"{8 * CELLS} bytes", f"rank {right}"], window.Put, value, right, 1 << 61)
    wrong(window, [f"rank {right} is locked already", "MPI_Win_unlock first"], window.Lock, right)
    wrong(window, [f"rank {ranks + 3}", f"{ranks} ranks"], window.Get, value, ranks + 3)
    window.Put(value, right)  # the window is as good as before
    window.Unlock(right)
    comm.Barrier()
    window.Free()


def classes():
    """Each kind of wrong argument has the class that MPI names for it, and each error keeps its text."""
    window, memory = allocate()
    two, word = many([7, 7]), MPI.INT64_T
    number = [two, 1, word]
    no_type, of_reals = MPI.DATATYPE_NULL, MPI.FLOAT.Create_struct([1, 1], [0, 8], [MPI.FLOAT, MPI.INT]).Commit()
    user_made = MPI.Op.Create(lambda a, b, t: None)
    window.Fence()
    tries = [
        (MPI.ERR_RANK, f"rank {ranks}", window.Put, number, ranks),
        (MPI.ERR_RANK, "rank -7", window.Get, number, -7),
        (MPI.ERR_RANK, f"rank {ranks + 1}", window.Accumulate, number, ranks + 1),
        (MPI.ERR_RANK, f"rank {ranks + 2}", window.Lock, ranks + 2),
        (MPI.ERR_RANK, f"rank {ranks + 3}", window.Flush, ranks + 3),
        (MPI.ERR_COUNT, "a target count of -3", window.Put, number, right, [0, -3, word]),
        (MPI.ERR_COUNT, "2 elements of 8 bytes here do not fit 1 elements", window.Get, two, right, [0, 1, word]),
        (MPI.ERR_TYPE, "MPI_DATATYPE_NULL", window.Put, number, right, [0, 1, no_type]),
        (MPI.ERR_TYPE, "one predefined type", window.Accumulate, [two, 1, of_reals], right, [0, 1, of_reals]),
        (MPI.ERR_OP, "predefined operations", window.Accumulate, number, right, [0, 1, word], user_made),
        (MPI.ERR_RMA_RANGE, f"the {8 * CELLS} bytes", window.Put, number, right, [CELLS, 1, word]),
        (MPI.ERR_LOCKTYPE, "a lock of type 77", window.Lock, right, 77),
        (MPI.ERR_ASSERT, "an assertion of", window.Fence, 1 << 20),
        (MPI.ERR_RMA_SYNC, "is not locked", window.Unlock, right),
    ]
    codes = [(wrong(window, [says], call, *arguments, kind=kind), says) for kind, says, call, *arguments in tries]
    for code, says in codes:
        assert says in MPI.Get_error_string(code), f"{MPI.Get_error_string(code)!r} no longer says {says!r}"
    expect(len({code for code, _ in codes}), len(tries), "codes")
    window.Fence()
    expect(memory.any(), False, "what failed calls have written")
    of_reals.Free()
    user_made.Free()
    window.Free()


def handler():
    """An error handler may use the window whose call failed."""
    window, _ = allocate()
    told = []

    def handle(failed, _):
        failed.Get_attr(MPI.WIN_SIZE)
        failed.Flush_all()
        told.append(failed.Get_group().size)

    window.Set_errhandler(MPI.Win.Create_errhandler(handle))
    window.Lock(right)
    wrong(window, [f"rank {right}"], window.Put, one(1), right, CELLS)
    window.Unlock(right)
    expect(told, [ranks], "calls of a handler")
    window.Set_errhandler(MPI.ERRORS_RETURN)
    comm.Barrier()
    window.Free()


for part in (overlapping_epochs, to_oneself, requests, predefined_types, pair_types, derived_types, testing, nobody,
             errors, classes, handler):
    part()
    comm.Barrier()
if rank == 0:
    print("window mixture: ok", flush=True)
