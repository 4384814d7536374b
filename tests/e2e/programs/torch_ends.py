"""How calls and groups of torch.distributed end, and which ranks that needs: torch_ends.py WHAT ..."""

import datetime
import os
import signal
import sys
import threading
import time
import weakref

import penstock.torch  # noqa: F401, makes the back end known
import torch
import torch.distributed as dist


def begin(seconds=20):
    if not dist.is_initialized():
        dist.init_process_group("penstock", timeout=datetime.timedelta(seconds=seconds))
    return dist.get_rank(), dist.get_world_size()


def error_of(call):
    try:
        call()
    except RuntimeError as error:
        return str(error).split("\n")[0]
    return "no error"


def let_go():
    """Only the program holds a tensor once the call has ended."""
    rank, _ = begin()
    calls = {"all_reduce": lambda t: dist.all_reduce(t, async_op=True)}
    if rank < 2:
        calls["recv"] = lambda t: dist.isend(t, 1) if rank == 0 else dist.irecv(t, 0)
    for name, call in calls.items():
        for turn in range(300):
            tensor = torch.ones(3)
            work = call(tensor)
            work.wait()
            seen = weakref.ref(tensor)
            del tensor, work
            assert seen() is None, (name, turn)


def last_is_recv():
    """The program ends without destroy_process_group, and holds no reference to its last tensor."""
    rank, _ = begin()
    dist.send(torch.ones(1_000_000), 1) if rank == 0 else dist.recv(torch.ones(1_000_000), 0)


def outlived():
    """Rank 1 has sent, left its group and ended when rank 0 receives."""
    rank, _ = begin()
    if rank == 1:
        dist.recv(torch.zeros(1), 0)
        for number in range(5):
            dist.send(torch.full((250,), float(number)), 0)
        dist.destroy_process_group()
        return
    dist.send(torch.zeros(1), 1)
    time.sleep(4)
    received = torch.zeros(250)
    for number in range(5):
        dist.recv(received, 1)
        assert received[0] == received[249] == number
    dist.destroy_process_group()


def third():
    """Rank 0 has no part in a message of the group, and waits for the two elsewhere."""
    rank, _ = begin()
    group = dist.new_group([0, 1, 2])
    if rank != 0:
        dist.batch_isend_irecv([dist.P2POp(dist.isend if rank == 1 else dist.irecv, torch.ones(3), 3 - rank, group)])[0].wait()
    dist.barrier()


def cross():
    """A receive in the group is begun before the ranks meet in the world, and its send comes afterwards."""
    rank, _ = begin()
    group = dist.new_group([0, 1, 2])
    got = torch.zeros(3)
    receive = dist.irecv(got, 0, group=group) if rank == 1 else None
    dist.all_reduce(torch.ones(3))
    if rank == 0:
        dist.send(torch.ones(3), 1, group=group)
    if receive is not None:
        receive.wait()
        assert got.tolist() == [1.0] * 3, got


def apart():
    """Groups beside a world of gloo are made one after the other: no rank waits for one that makes another group."""
    rank, ranks, port = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    # At a port of its own: a rank that is early would join the store that rank 0 has not closed yet.
    store = f"tcp://127.0.0.1:{port + 1}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=60))
    groups = [dist.new_group(ranks, backend="penstock") for ranks in ([0, 1], [1, 2])]
    dist.barrier()
    for number, group in enumerate(groups):
        if rank in (number, number + 1):
            values = torch.ones(3)
            dist.all_reduce(values, group=group)
            assert values.tolist() == [2.0] * 3


def again():
    """Each time rank 0 has a new store at the same port."""
    for _ in range(5):
        begin()
        dist.all_reduce(torch.ones(3))
        dist.destroy_process_group()


def same_store():
    """The store stays, and still holds the entries of earlier groups of the same name."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), ranks, rank == 0)
    for _ in range(5):
        dist.init_process_group("penstock", store=store, rank=rank, world_size=ranks)
        group = dist.new_group([0, 1])
        if rank < 2:
            dist.send(torch.ones(1), 1, group=group) if rank == 0 else dist.recv(torch.ones(1), 0, group=group)
        dist.all_reduce(torch.ones(3))
        dist.destroy_process_group()
    store.add("end", 1)
    while rank == 0 and store.add("end", 0) < ranks:
        pass


def flushed():
    """Calls that are under way when their group is destroyed end by themselves, though their peers come late."""
    rank, ranks = begin()
    large, small = torch.full((1_000_000,), float(rank)), torch.ones(3)
    works = [dist.isend(large, 1), dist.all_reduce(small, async_op=True)] if rank == 0 else []
    if rank != 0:
        time.sleep(2.5)  # rank 0 is in destroy_process_group
        if rank == 1:
            dist.recv(large, 0)
            assert large.max().item() == 0.0
        dist.all_reduce(small)
    dist.destroy_process_group()
    for work in works:
        work.wait()
    assert small.tolist() == [float(ranks)] * 3, small


def unmatched():
    """No rank has to do anything for a receive that nobody has sent to: it ends with its group."""
    rank, ranks = begin()
    store = dist.distributed_c10d._get_default_store()
    work = dist.irecv(torch.ones(3), 1) if rank == 0 else None
    if rank != 0:
        store.wait(["destroyed"])
    dist.destroy_process_group()
    if rank != 0:
        store.add("end", 1)
        return
    store.set("destroyed", "yes")
    error = error_of(work.wait)
    assert "was destroyed" in error, error
    while store.add("end", 0) < ranks - 1:
        pass


def in_callback():
    """A message's callback destroys the group, in the thread that carries the group's messages."""
    rank, _ = begin()
    done = threading.Event()

    def end(_):
        dist.destroy_process_group()
        done.set()

    work = dist.isend(torch.ones(3), 1) if rank == 0 else dist.irecv(torch.ones(3), 0)
    work.get_future().then(end)
    assert done.wait(20)


def missed():
    """Rank 0 misses meetings that the others give up. It takes part in the next one, whoever comes first."""
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), ranks, rank == 0)

    def begin_on_it(seconds):
        dist.init_process_group("penstock", store=store, rank=rank, world_size=ranks, timeout=datetime.timedelta(seconds=seconds))

    for turn in range(2):
        if rank != 0:
            error = error_of(lambda: begin_on_it(0.5))
            assert "rank 0 of process group 0 has not come" in error, error
        store.add("given up", 1)
        while store.add("given up", 0) < ranks * (turn + 1):
            time.sleep(0.01)
    begin_on_it(20)
    values = torch.ones(3)
    dist.all_reduce(values)
    assert values.tolist() == [float(ranks)] * 3
    dist.destroy_process_group()
    store.add("end", 1)
    while rank == 0 and store.add("end", 0) < ranks:
        pass


def missing():
    """Rank 1 makes the group and does not come to its first call."""
    rank, _ = begin()
    group = dist.new_group(timeout=datetime.timedelta(seconds=2))
    if rank != 1:
        error = error_of(lambda: dist.all_reduce(torch.ones(1), group=group))
        assert "rank 1 " in error and "has not come" in error, error
    dist.barrier()


def anybody():
    """All ranks that could send have died."""
    rank, _ = begin(seconds=600)
    dist.barrier()
    if rank != 0:
        os.kill(os.getpid(), signal.SIGKILL)
    error = error_of(lambda: dist.recv(torch.ones(1)))
    assert "all others are gone" in error and "died" in error, error


def forked():
    """A child's calls on its parent's group are refused, and its end does not disturb the parent's."""
    rank, ranks = begin()
    dist.all_reduce(torch.ones(1))
    child = os.fork()
    if child == 0:
        for call in (lambda: dist.all_reduce(torch.ones(1)), lambda: dist.isend(torch.ones(1), 1 - rank)):
            error = error_of(call)
            assert "from which this one was forked" in error, error
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
    values = torch.ones(1)
    dist.all_reduce(values)
    assert values.item() == ranks
    dist.destroy_process_group()


CASES = [let_go, last_is_recv, outlived, third, cross, apart, again, same_store, flushed, unmatched, in_callback, missed, missing, anybody,
         forked]
for what in sys.argv[1:]:
    {case.__name__: case for case in CASES}[what]()
os.write(1, b"ends: ok\n")
