"""Collectives and training whose bits are compared: torch_switch.py calls|training. Each rank prints what it got as a digest."""

import hashlib
import sys

import penstock.torch  # noqa: F401, makes the back end known
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import ReduceOp
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("penstock")
rank, ranks = dist.get_rank(), dist.get_world_size()
seen = hashlib.sha256()
CALLS = 5


def keep(*tensors):
    for tensor in tensors:
        seen.update(tensor.contiguous().view(torch.uint8).numpy().tobytes())


def calls():
    """CALLS of each collective; sums in which the order of the ranks shows."""
    random = torch.Generator().manual_seed(17 * rank)
    for turn in range(CALLS):
        def numbers(count):
            return torch.randn(count, generator=random) * 10.0 ** (turn % 4)
        tensor = numbers(999)
        dist.all_reduce(tensor, (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.MAX, ReduceOp.PRODUCT, ReduceOp.MIN)[turn % 5])
        keep(tensor)
        part = torch.zeros(333)
        dist.reduce_scatter_tensor(part, numbers(333 * ranks))
        keep(part)
        whole = torch.zeros(500 * ranks)
        dist.all_gather_into_tensor(whole, numbers(500))
        keep(whole)
        parts = [torch.zeros(40, 5) for _ in range(ranks)]
        dist.all_gather(parts, numbers(200).view(40, 5))
        keep(*parts)
        tensor = numbers(700)
        dist.broadcast(tensor, turn % ranks)
        keep(tensor)
        tensor = numbers(3)
        dist.reduce(tensor, turn % ranks)
        if rank == turn % ranks:
            keep(tensor)
        dist.barrier()


def training():
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(32, 400), nn.ReLU(), nn.Linear(400, 8)), bucket_cap_mb=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    random = torch.Generator().manual_seed(100 + rank)
    for step in range(60):
        x, y = torch.randn(16, 32, generator=random), torch.randint(0, 8, (16,), generator=random)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print(f"step {step}", flush=True)
    keep(*(parameter.detach() for parameter in model.parameters()))


{"calls": calls, "training": training}[sys.argv[1]]()
print(f"digest {seen.hexdigest()}", flush=True)
dist.destroy_process_group()
