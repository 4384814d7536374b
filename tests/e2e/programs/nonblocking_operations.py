"""Reductions that the MPI does, in calls that do not block: operations of the user, complex numbers, MPI_MINLOC.

    nonblocking_operations.py

An element is a map x -> a x + b, and the operation puts one map behind the other, which is not commutative. Operations and
types are freed while calls that need them are in progress. No function is called but in a call of the program.
"""
import ctypes
import threading
import time

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
ours = ctypes.CDLL(None)  # preloaded
loaded = {line.split()[-1] for line in open("/proc/self/maps") if "/libmpi.so" in line}
mpi = ctypes.CDLL(loaded.pop())
FUNCTION = ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_int64), ctypes.POINTER(ctypes.c_int64),
                            ctypes.POINTER(ctypes.c_int), ctypes.c_void_p)
in_a_call = False
types_seen = set()


def join(left, right):
    return np.stack([left[:, 0] * right[:, 0], left[:, 1] * right[:, 0] + right[:, 1]], axis=1)


def handle_at(address, kind):
    return ctypes.string_at(address, MPI._sizeof(kind))


@FUNCTION
def joined(left, right, length, type_at):
    assert in_a_call and threading.current_thread() is threading.main_thread()
    types_seen.add(handle_at(type_at, MPI.Datatype))
    n = length[0]
    left, right = (np.ctypeslib.as_array(at, (n, 2)) for at in (left, right))
    right[:] = join(left, right)


def address_of(thing):
    return ctypes.c_void_p(MPI._addressof(thing))


def make_op():
    op = MPI.Op()
    assert mpi.MPI_Op_create(joined, 0, address_of(op)) == 0
    return op


def free_in_c(op, kind):
    """As a program in C does, which mpi4py would not: it forgets the function too."""
    assert getattr(ours, f"MPI_{kind}_free")(address_of(op)) == 0


def maps(rank, count, salt):
    """Odd factors: none of them makes 0 of all that came before."""
    numbers = np.arange(count * 2, dtype="i8").reshape(count, 2)
    return numbers * 2 * (rank + 2) + 1 + 4 * salt


def product(ranks, count, salt):
    total = maps(ranks[0], count, salt)
    for rank in ranks[1:]:
        total = join(total, maps(rank, count, salt))
    return total


def check(got, wanted, *what):
    assert (got == wanted).all(), (what, world.rank, got[:4], wanted[:4])


def end(request):
    """By waits or tests, and with time in between, in which nothing may call the function."""
    global in_a_call
    time.sleep(0.002)
    in_a_call = True
    if world.rank % 2 == 0:
        request.Wait()
    while not request.Test():
        pass
    in_a_call = False


def call_all(comm, count, salt, in_place):
    """Each reduction once, with an operation and a type that are freed at once."""
    n, me = comm.size, comm.rank
    everyone = list(range(n))
    own = slice(me * count, (me + 1) * count)
    counts = [count + rank for rank in range(n)]
    at = sum(counts[:me])
    for name, ranks, length, part in (
            ("Iallreduce", everyone, count, slice(0, count)), ("Ireduce", everyone, count, slice(0, count)),
            ("Iscan", everyone[:me + 1], count, slice(0, count)), ("Iexscan", everyone[:me], count, slice(0, count)),
            ("Ireduce_scatter_block", everyone, n * count, own),
            ("Ireduce_scatter", everyone, sum(counts), slice(at, at + counts[me]))):
        element, op = MPI.INT64_T.Create_contiguous(2).Commit(), make_op()
        wanted_type = handle_at(address_of(element), element)
        types_seen.clear()
        gets = name != "Ireduce" or me == n - 1
        here = in_place and gets
        given = maps(me, length, salt)
        got = given if here else np.full((part.stop - part.start, 2), -1)
        size = length if name not in ("Ireduce_scatter_block", "Ireduce_scatter") else part.stop - part.start
        sent = MPI.IN_PLACE if here else [given, size if name == "Ireduce_scatter_block" else length, element]
        whole = here and name == "Ireduce_scatter"
        received = [got, length if whole else size, element] if gets else None
        more = {"Ireduce": [n - 1], "Ireduce_scatter": [counts]}.get(name, [])
        if name == "Ireduce_scatter":
            request = comm.Ireduce_scatter(sent, received, counts, op)
        else:
            request = getattr(comm, name)(sent, received, op, *more)
        free_in_c(op, "Op")
        free_in_c(element, "Type")
        assert op == MPI.OP_NULL and element == MPI.DATATYPE_NULL
        end(request)
        if gets and ranks:
            check(got[:part.stop - part.start], product(ranks, length, salt)[part], name, count, in_place)
            if count and len(ranks) > 1:
                assert types_seen == {wanted_type}, "the function got another type than the program has passed"


def persistent(comm, count):
    op, got, given = make_op(), np.zeros((count, 2), "i8"), np.zeros((count, 2), "i8")
    element = MPI.INT64_T.Create_contiguous(2).Commit()
    request = comm.Allreduce_init([given, count, element], [got, count, element], op)
    free_in_c(op, "Op")
    free_in_c(element, "Type")
    for salt in range(3):
        given[:] = maps(comm.rank, count, salt)
        request.Start()
        end(request)
        check(got, product(list(range(comm.size)), count, salt), "persistent", count)
    request.Free()


def predefined(comm, count):
    """Of no type that the product computes itself; more than it keeps for later goes to the MPI."""
    given, got = np.full(count, 1 + 2j * comm.rank), np.zeros(count, "c16")
    comm.Iallreduce(given, got, MPI.SUM).Wait()
    check(got, comm.size + 1j * comm.size * (comm.size - 1), "complex")
    pair = np.dtype([("value", "f8"), ("index", "i4")], align=True)
    least, own = np.zeros(count, pair), np.zeros(count, pair)
    own["value"], own["index"] = (np.arange(count) + comm.rank) % comm.size, comm.rank
    comm.Iallreduce([own, count, MPI.DOUBLE_INT], [least, count, MPI.DOUBLE_INT], MPI.MINLOC).Wait()
    check(least["value"], 0, "least")
    check(least["index"], -np.arange(count) % comm.size, "where")


def progress(comm, count):
    """A rank is in a call of the MPI until another has ended what both have begun; and one has freed its request."""
    global in_a_call
    op, got, token = make_op(), np.zeros((count, 2), "i8"), np.zeros(1)
    element = MPI.INT64_T.Create_contiguous(2).Commit()
    given = maps(comm.rank, count, 0)
    request = comm.Iallreduce([given, count, element], [got, count, element], op)
    if comm.rank == 0:
        comm.Recv(token, comm.size - 1)
        end(request)
    else:
        end(request)
        if comm.rank == comm.size - 1:
            comm.Send(token, 0)
    check(got, product(list(range(comm.size)), count, 0), "progress")
    got[:] = 0
    request = comm.Iallreduce([given, count, element], [got, count, element], op)
    in_a_call = True
    request.Free()
    free_in_c(op, "Op")
    free_in_c(element, "Type")
    while not got.all():  # the last byte comes when the request, which nobody sees any more, is over
        MPI.Request.Testall([MPI.REQUEST_NULL])
    in_a_call = False
    check(got, product(list(range(comm.size)), count, 0), "freed")


def main():
    comm = world.Dup()
    for _ in range(3):
        comm.Barrier()
    for salt, count in enumerate((1, 0, 37, 700, 9000)):
        call_all(comm, count, salt, salt % 2 == 1)
    call_all(comm, 5, 9, True)
    persistent(comm, 300)
    predefined(comm, 1000)
    predefined(comm, (64 << 20) // comm.size // 16 + 1)
    progress(comm, 40000)
    print("operations: ok", flush=True)


main()
