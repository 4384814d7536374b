"""Losses of DDP, FSDP2 in three types, a mesh of replicas and shards, and DTensor, as JSON: torch_training.py BACKEND."""

import json
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

if sys.argv[1] == "penstock":
    import penstock.torch  # noqa: F401, makes the back end known
dist.init_process_group(sys.argv[1])
rank, ranks = dist.get_rank(), dist.get_world_size()


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))


def losses(trained):
    optimizer = torch.optim.AdamW(trained.parameters(), 1e-3)
    random, found = torch.Generator().manual_seed(100 + rank), []
    for _ in range(8):
        x, y = torch.randn(16, 64, generator=random), torch.randint(0, 10, (16,), generator=random)
        loss = nn.functional.cross_entropy(trained(x).float(), y)
        loss.backward()
        nn.utils.clip_grad_norm_(trained.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        found.append(mean.item() / ranks)
    return found


def sharded(dtype, mesh=None):
    made, policy = model(), MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype)
    for layer in made:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh, mp_policy=policy)
    return fully_shard(made, mesh=mesh, mp_policy=policy)


found = {"ddp": losses(DistributedDataParallel(model()))}
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    found[f"fsdp2 {dtype}"] = losses(sharded(dtype))
mesh = init_device_mesh("cpu", (2, ranks // 2), mesh_dim_names=("replicas", "shards"))
found["mesh"] = losses(sharded(torch.float32, mesh))
matrix = torch.arange(16.0).reshape(4, 4)
assert torch.equal(distribute_tensor(matrix, mesh["shards"], [Shard(0)]).full_tensor(), matrix)
if rank == 0:
    print(json.dumps(found), flush=True)
dist.destroy_process_group()
