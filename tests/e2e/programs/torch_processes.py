"""Ways in which processes, threads and groups of torch.distributed come and go: torch_processes.py WHAT."""

import copy
import datetime
import os
import signal
import sys
import tempfile
import threading
import time
import warnings

import penstock.torch  # noqa: F401, makes the back end known
import torch
import torch.distributed as dist

TIMEOUT = datetime.timedelta(seconds=30)


def total(ranks):
    return ranks * (ranks + 1) / 2


def check_group(group=None, rounds=20):
    rank, ranks = dist.get_rank(group), dist.get_world_size(group)
    for size in (1, 1000, 50_000):
        for _ in range(rounds):
            tensor = torch.full((size,), rank + 1.0)
            dist.all_reduce(tensor, group=group)
            assert (tensor == total(ranks)).all(), (rank, size, tensor)


def spawned(rank, ranks, folder):
    dist.init_process_group("penstock", init_method=f"file://{folder}/met", rank=rank, world_size=ranks)
    check_group()
    dist.destroy_process_group()


def spawn():
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(spawned, (3, folder), nprocs=3)


def threads():
    """Each thread has a group of its own; one group is used by several threads in turn."""
    dist.init_process_group("penstock", timeout=TIMEOUT)
    groups = [dist.new_group() for _ in range(4)]
    errors = []

    def use(group):
        try:
            check_group(group)
        except Exception as error:
            errors.append(error)

    running = [threading.Thread(target=use, args=(group,)) for group in groups]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not errors, errors
    for group in groups:
        thread = threading.Thread(target=use, args=(group,))
        thread.start()
        thread.join()
    assert not errors, errors
    dist.destroy_process_group()


def thread_ranks():
    """Two ranks in one process."""
    store, errors = dist.HashStore(), []

    def run(rank):
        try:
            group = penstock.torch.backend_module().make(store, rank, 2, TIMEOUT, "threads", True)
            for size in (1, 100_000):
                for _ in range(20):
                    tensor = torch.full((size,), rank + 1.0)
                    group.allreduce(tensor).wait()
                    assert (tensor == 3).all()
                    group.send([tensor], 1 - rank, 3).wait() if rank == 0 else group.recv([tensor], 1 - rank, 3).wait()
        except Exception as error:
            errors.append(error)

    running = [threading.Thread(target=run, args=(rank,)) for rank in range(2)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not errors, errors


def again():
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    for turn in range(4):
        dist.init_process_group("penstock", init_method=f"file://{sys.argv[2]}{turn}", rank=rank, world_size=ranks)
        check_group(rounds=2)
        check_group(dist.new_group(), rounds=2)
        dist.destroy_process_group()


def say(line):
    """In one piece, where the ranks share a pipe."""
    os.write(1, f"{line}\n".encode())


def elastic():
    """By torchrun: a worker is killed in the first life of the job."""
    dist.init_process_group("penstock", timeout=TIMEOUT)
    life = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    check_group()
    if life == 0 and dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    check_group()
    if dist.get_rank() == 0:
        say(f"life {life}")
    dist.destroy_process_group()


def stopped():
    dist.init_process_group("penstock", timeout=datetime.timedelta(seconds=3))
    rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()
    store.set(f"pid {rank}", str(os.getpid()))
    check_group()
    if rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
        os._exit(0)
    begin = time.monotonic()
    try:
        check_group()
    except dist.DistBackendError as error:
        print(f"rank {rank} after {time.monotonic() - begin:.0f} s: {error}".split("\n")[0], flush=True)
    store.set(f"told {rank}", "")
    if rank == 0:
        store.wait(["told 2"])
        os.kill(int(store.get("pid 1")), signal.SIGCONT)
    os._exit(0)


def full():
    """More groups with long calls than the pool has room for; those that have made one go on working."""
    dist.init_process_group("penstock", timeout=TIMEOUT)
    check_group(rounds=1)
    rank, groups = dist.get_rank(), []
    try:
        for _ in range(1000):
            group = dist.new_group()
            dist.all_reduce(torch.ones(20_000), group=group)
            groups.append(group)
    except dist.DistBackendError as error:
        print(f"rank {rank}: full after {len(groups)}: {error}".split("\n")[0], flush=True)
    check_group()
    for group in groups:
        check_group(group, rounds=1)
    dist.destroy_process_group()


def parts():
    """Smaller groups of one."""
    dist.init_process_group("penstock", timeout=TIMEOUT)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine, every = dist.new_subgroups(2)
    assert len(every) == ranks // 2 and dist.get_process_group_ranks(mine) == [rank // 2 * 2, rank // 2 * 2 + 1]
    check_group(mine, rounds=2)
    odd, _ = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])
    check_group(odd, rounds=2)
    world = dist.distributed_c10d._get_default_group()
    for turn in range(2):
        low = world.split_group([0, 1], group_name=f"low {turn}")
        if rank < 2:
            assert low.size() == 2
            tensor = torch.full((3,), rank + 1.0)
            low.allreduce(tensor).wait()
            assert (tensor == 3).all()
        else:
            assert low is None
    backend = world._get_backend(torch.device("cpu"))
    options = backend.options
    for other in (copy.copy(options), copy.deepcopy(options)):
        assert other._timeout == options._timeout == TIMEOUT and other.backend == "penstock", other
    assert backend.supports_splitting
    world.set_timeout(datetime.timedelta(seconds=7))
    assert backend.options._timeout == datetime.timedelta(seconds=7)
    dist.destroy_process_group()


def apart():
    """Ranks that leave 0.3 s after each other, upwards or downwards."""
    dist.init_process_group("penstock", timeout=TIMEOUT)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    check_group(rounds=2)
    check_group(dist.new_group(), rounds=2)
    message = torch.full((100_000,), 7.0)
    if rank == 0:
        dist.send(message, 1)
    if rank == 1:
        received = torch.zeros_like(message)
        dist.recv(received, 0)
        assert torch.equal(received, message)
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    in_pool = backend.allocate_tensor(1 << 20, dtype=torch.float32, device=torch.device("cpu")).fill_(rank + 1)
    dist.all_reduce(in_pool)
    assert (in_pool == total(ranks)).all()
    time.sleep(0.3 * (rank if sys.argv[2] == "upwards" else ranks - 1 - rank))
    dist.destroy_process_group()


def warned():
    """A usual job of one rank brings no warning of ours or torch's."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dist.init_process_group("penstock", store=dist.HashStore(), rank=0, world_size=1)
        tensor = torch.ones(4)
        dist.all_reduce(tensor)
        gather = getattr(dist, "all_gather_single", dist.all_gather_into_tensor)  # renamed in torch 2.13
        scatter = getattr(dist, "reduce_scatter_single", dist.reduce_scatter_tensor)
        gather(torch.empty(4), tensor)
        scatter(torch.empty(4), tensor)
        dist.barrier()
        dist.destroy_process_group()


CASES = {"spawn": spawn, "threads": threads, "thread_ranks": thread_ranks, "again": again, "elastic": elastic,
         "stopped": stopped, "full": full, "parts": parts, "apart": apart, "warned": warned}
if __name__ == "__main__":
    CASES[sys.argv[1]]()
    say(f"{sys.argv[1]}: ok")
