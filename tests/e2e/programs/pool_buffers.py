"""Memory of users that lies in the pool, on two nodes that are not coherent.

usage: pool_buffers.py LIBPENSTOCK, 2 ranks on 2 nodes. Bytes of a shared object are seen after
publish and observe and not before; a message goes from an object to an object by plain copies on
the nodes of its sender and its receiver.
"""
import ctypes
import os
import sys

rank = int(os.environ["PMI_RANK"])
os.environ["PENSTOCK_NODE"] = str(rank)  # for the library and for the MPI

import numpy as np  # noqa: E402
from mpi4py import MPI  # noqa: E402

library = ctypes.CDLL(sys.argv[1])
for name in ("penstock_object_data", "penstock_last_error"):
    getattr(library, name).restype = ctypes.c_void_p
library.penstock_last_error.restype = ctypes.c_char_p
pool = ctypes.c_void_p()
comm = MPI.COMM_WORLD
BYTES = 300_000
# Lines beside those of the pool's own structures may be fetched along with them at any time.
APART = slice(4096, BYTES)


def call(name, *arguments):
    if getattr(library, name)(*arguments) != 0:
        raise RuntimeError(f"{name}: {library.penstock_last_error().decode()}")


def bytes_of(handle):
    address = library.penstock_object_data(handle)
    return np.ctypeslib.as_array((ctypes.c_uint8 * BYTES).from_address(address))


def make(name):
    handle = ctypes.c_void_p()
    call("penstock_arena_create", pool, name, ctypes.c_uint64(BYTES), None, ctypes.byref(handle))
    return bytes_of(handle)


def find(name):
    handle = ctypes.c_void_p()
    call("penstock_arena_open", pool, name, ctypes.byref(handle))
    return bytes_of(handle)


def publish(array):
    call("penstock_publish", pool, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(BYTES))


def observe(array):
    call("penstock_observe", pool, array.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(BYTES))


def expect(holds, what):
    if not holds:
        print(f"rank {rank}: {what}", file=sys.stderr, flush=True)
        comm.Abort(2)


def share():
    """One writer, one reader."""
    shared = make(b"shared") if rank == 0 else None
    comm.Barrier()
    if rank == 1:
        shared = find(b"shared")
        observe(shared)
    comm.Barrier()
    if rank == 0:
        shared[:] = 7
    comm.Barrier()
    if rank == 1:
        observe(shared)
        expect((shared[APART] == 0).all(), "sees stores that were not published")
    comm.Barrier()
    if rank == 0:
        publish(shared)
    comm.Barrier()
    if rank == 1:
        expect((shared[APART] == 0).all(), "sees what it has not observed")
        observe(shared)
        expect((shared == 7).all(), "does not see what was published and observed")


def send_between_objects():
    mine = make(b"mine-%d" % rank)
    for number in range(1, 6):
        if rank == 0:
            mine[:] = number
            comm.Send(mine, 1)
            comm.Recv(mine, 1)
            expect((mine == number + 100).all(), f"round {number}: wrong bytes came back")
        else:
            comm.Recv(mine, 0)
            expect((mine == number).all(), f"round {number}: wrong bytes arrived")
            mine[:] = number + 100
            comm.Send(mine, 0)
    publish(mine)
    comm.Barrier()
    theirs = find(b"mine-%d" % (1 - rank))
    observe(theirs)
    expect((theirs == 105).all(), "the other's buffer is not what it published")


call("penstock_pool_attach", None, None, ctypes.byref(pool))
share()
send_between_objects()
comm.Barrier()
if rank == 0:
    print("pool buffers: ok", flush=True)
