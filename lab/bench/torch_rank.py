"""A rank of torch_collectives.py: torch_rank.py BACKEND OPERATIONS SIZES CALLS. Rank 0 prints "operation bytes microseconds CPU".

Microseconds are the median of the calls; CPU is the CPU time of all ranks for one call, also in microseconds. The
operation raw makes only the copies that no rank can avoid: its block into shared memory and a neighbour's out of it, on
all ranks at the same time.
"""

import mmap
import os
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist

RANK, RANKS = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
CALL_BYTES = 256 << 20  # in all calls of a measurement
GATHER = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor  # renamed in torch 2.13
SCATTER = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


def shared(size):
    """A tensor that all ranks map."""
    name = [None]
    if RANK == 0:
        with tempfile.NamedTemporaryFile(dir="/dev/shm", prefix="penstock-bench-", delete=False) as file:
            file.truncate(size * RANKS)
            name[0] = file.name
    dist.broadcast_object_list(name)
    with open(name[0], "r+b") as file:
        memory = mmap.mmap(file.fileno(), size * RANKS)
    dist.barrier()
    if RANK == 0:
        os.unlink(name[0])
    return torch.frombuffer(memory, dtype=torch.float32).view(RANKS, -1)


def tensor(elements, in_pool):
    if not in_pool:
        return torch.ones(elements)
    cpu = torch.device("cpu")
    made = dist.group.WORLD._get_backend(cpu).allocate_tensor(elements, dtype=torch.float32, device=cpu)
    return made.fill_(1)


def prepared(operation, size, in_pool):
    """Returns a function that makes one call; `size`: bytes of a rank's block."""
    block, whole = tensor(size // 4, in_pool), tensor(size // 4 * RANKS, in_pool)
    if operation == "raw":
        there = shared(size)

        def copy():
            there[RANK].copy_(block)
            block.copy_(there[RANK - 1])
        return copy
    return {"all_reduce": lambda: dist.all_reduce(block, op=dist.ReduceOp.AVG),
            "all_gather": lambda: GATHER(whole, block),
            "reduce_scatter": lambda: SCATTER(block, whole)}[operation]


def check(operation):
    block, whole = torch.full((8,), RANK + 1.0), torch.arange(8.0 * RANKS)
    if operation == "all_reduce":
        dist.all_reduce(block)
        assert (block == RANKS * (RANKS + 1) / 2).all(), block
    elif operation == "all_gather":
        GATHER(whole, block)
        assert (whole.view(RANKS, 8)[:, 0] == torch.arange(1.0, RANKS + 1)).all(), whole
    elif operation == "reduce_scatter":
        SCATTER(block, whole)
        assert (block == RANKS * torch.arange(8.0 * RANK, 8.0 * RANK + 8)).all(), block


def measure(operation, size, most, in_pool):
    call, calls = prepared(operation, size, in_pool), min(max(CALL_BYTES // size, 5), most)
    for _ in range(max(calls // 10, 2)):
        call()
    dist.barrier()
    times, cpu = [], time.process_time()
    for _ in range(calls):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    spent = torch.tensor([time.process_time() - cpu])
    dist.all_reduce(spent)
    return statistics.median(times) * 1e6, spent.item() / calls * 1e6


def main():
    backend, operations, sizes, most = sys.argv[1:]
    backend, in_pool = backend.removesuffix("-pool"), backend.endswith("-pool")
    torch.set_num_threads(1)
    if backend == "penstock":
        import penstock.torch  # noqa: F401, makes the back end known
    dist.init_process_group(backend)
    for operation in operations.split(","):
        check(operation)
        for size in map(int, sizes.split(",")):
            median, cpu = measure(operation, size, int(most), in_pool)
            if RANK == 0:
                print(operation, size, f"{median:.2f} {cpu:.2f}", flush=True)
    dist.destroy_process_group()


main()
