"""What goes wrong among ranks of torch.distributed: torch_failures.py WHAT. Each rank prints the error that it gets."""

import datetime
import os
import signal
import sys
import threading
import time

import penstock.torch  # noqa: F401, makes the back end known
import torch
import torch.distributed as dist

def store_ends():
    """Rank 0, which serves the store, dies before the ranks of a second group meet."""
    me = int(os.environ["RANK"])
    dist.init_process_group("penstock", timeout=datetime.timedelta(seconds=30))
    group = dist.new_group()
    dist.barrier()
    if me == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        dist.barrier()
    except RuntimeError:
        pass  # so rank 0 is dead now
    try:
        dist.all_reduce(torch.ones(1), group=group)
        print(f"rank {me}: no error", flush=True)
    except Exception as error:
        print(f"rank {me}: {type(error).__name__}: {error}".split("\n")[0], flush=True)


def absent():
    """Ranks 0 and 2 never make the group."""
    me = int(os.environ["RANK"])
    store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]), is_master=me == 0, wait_for_workers=False)
    if me != 1:
        store.wait(["end"])
        return
    try:
        dist.init_process_group("penstock", store=store, rank=1, world_size=3, timeout=datetime.timedelta(seconds=1))
        dist.all_reduce(torch.ones(1))
        print("rank 1: no error", flush=True)
    except Exception as error:
        print(f"rank 1: {type(error).__name__}: {error}".split("\n")[0], flush=True)
    store.set("end", "now")


if sys.argv[1] in ("store_ends", "absent"):
    {"store_ends": store_ends, "absent": absent}[sys.argv[1]]()
    sys.stdout.flush()
    os._exit(0)

dist.init_process_group("penstock", timeout=datetime.timedelta(seconds=3))
rank, ranks = dist.get_rank(), dist.get_world_size()
numbers = torch.ones(100_000)
dist.all_reduce(numbers)


def attempt(call, *arguments, **more):
    begin = time.monotonic()
    try:
        call(*arguments, **more)
        print(f"rank {rank}: no error", flush=True)
    except Exception as error:
        print(f"rank {rank} after {time.monotonic() - begin:.0f} s: {type(error).__name__}: {error}".split("\n")[0],
              flush=True)


def dies():
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    attempt(dist.all_reduce, numbers)
    attempt(dist.barrier)
    attempt(dist.recv, numbers, 1)


def late():
    if rank == 1:
        time.sleep(5)
    attempt(dist.all_reduce, numbers)
    dist.destroy_process_group()
    time.sleep(1)
    store = dist.TCPStore("127.0.0.1", int(os.environ["MASTER_PORT"]) + 1, ranks, is_master=rank == 0)
    dist.init_process_group("penstock", store=store, rank=rank, world_size=ranks)
    tensor = torch.ones(5)
    dist.all_reduce(tensor)
    print(f"rank {rank}: again: {tensor[0].item():.0f}", flush=True)


def size():
    attempt(dist.all_reduce, torch.ones(10 if rank == 1 else 100_000))


def type_():
    attempt(dist.all_reduce, torch.ones(10, dtype=torch.int32 if rank == 1 else torch.float32))


def order():
    attempt(*((dist.all_reduce, torch.ones(9)) if rank == 1 else (dist.broadcast, torch.ones(9), 0)))


def splits():
    """Rank 0 sends more to rank 1 than it expects; all other sizes match."""
    mine = [2] * ranks
    mine[1] += rank == 0
    attempt(dist.all_to_all_single, torch.empty(2 * ranks), torch.ones(sum(mine)), [2] * ranks, mine)


def lists():
    """Rank 1 gathers less from rank 0 than rank 0 sends."""
    attempt(dist.all_gather, [torch.empty(1 if rank == 1 and owner == 0 else 2) for owner in range(ranks)], torch.ones(2))


def abort():
    if rank == 0:
        threading.Timer(0.5, dist.distributed_c10d._get_default_group().abort).start()
        attempt(dist.all_reduce, numbers)
    else:
        time.sleep(1.5)


def tensors():
    attempt(dist.all_reduce, torch.ones(3).to_sparse())
    attempt(dist.all_gather_into_tensor, torch.empty(7), torch.ones(3))
    attempt(dist.all_reduce, torch.ones(3), op=dist.ReduceOp.BAND)
    attempt(dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu")).allreduce, [torch.ones(3, device="meta")],
            dist.AllreduceOptions())
    dist.barrier()


{"dies": dies, "late": late, "size": size, "type": type_, "order": order, "splits": splits, "lists": lists, "abort": abort,
 "tensors": tensors}[sys.argv[1]]()
dist.destroy_process_group()
