"""What PyTorch builds on collectives, on the CPU, against one process that has everything: torch_features.py BACKEND FOLDER."""

import sys

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

if sys.argv[1] == "penstock":
    import penstock.torch  # noqa: F401, makes the back end known
dist.init_process_group(sys.argv[1])
rank, ranks = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (ranks,))


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 8))


def inputs(owner):
    return torch.randn(6, 12, generator=torch.Generator().manual_seed(owner))


def trained(module, optimizer, batches, clip=nn.utils.clip_grad_norm_):
    for batch in batches:
        module(batch).square().mean().backward()
        clip(module.parameters(), 0.5)
        optimizer.step()
        optimizer.zero_grad()


def alone():
    """The parameters that training on all batches at once gives."""
    whole = model()
    batches = [torch.cat([inputs(owner + 10 * step) for owner in range(ranks)]) for step in range(3)]
    trained(whole, torch.optim.AdamW(whole.parameters(), 1e-2), batches)
    return whole.state_dict()


def same(found, wanted, what):
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=1e-4, atol=1e-5, msg=lambda text: f"{what} {name}: {text}")


def mine():
    return [inputs(rank + 10 * step) for step in range(3)]


def sharded_once():
    """FSDP of the first kind."""
    module = FullyShardedDataParallel(model(), device_id=torch.device("cpu"), use_orig_params=True)
    trained(module, torch.optim.AdamW(module.parameters(), 1e-2), mine(), lambda _, most: module.clip_grad_norm_(most))
    with FullyShardedDataParallel.summon_full_params(module):
        same({name: value.detach() for name, value in module.module.named_parameters()}, wanted, "FSDP1")


def sharded():
    """FSDP2, its buffers from the group if that has any; saved while training goes on, and loaded."""
    module = model()
    for layer in module:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(module, mesh=mesh)
    if hasattr(module, "set_allocate_memory_from_process_group_for_comm"):
        module.set_allocate_memory_from_process_group_for_comm(True)
    trained(module, torch.optim.AdamW(module.parameters(), 1e-2), mine())
    state = get_model_state_dict(module)
    same(get_model_state_dict(module, options=StateDictOptions(full_state_dict=True)), wanted, "FSDP2")
    saving = dcp.async_save(state, checkpoint_id=sys.argv[2])
    with torch.no_grad():
        dist.all_reduce(torch.ones(1000))
    saving.result()
    dist.barrier()
    other = model()
    nn.init.zeros_(other[0].weight)
    fully_shard(other, mesh=mesh)
    loaded = get_model_state_dict(other)
    dcp.load(loaded, checkpoint_id=sys.argv[2])
    same({name: value.full_tensor() for name, value in loaded.items()}, wanted, "loaded")


def tensor_parallel():
    whole, parts = model(), model()
    parallelize_module(parts, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    batch = inputs(99)
    torch.testing.assert_close(parts(batch), whole(batch))
    matrix = torch.arange(float(8 * ranks)).reshape(2 * ranks, 4)
    rows = distribute_tensor(matrix, mesh, [Shard(0)])
    columns = rows.redistribute(mesh, [Shard(1)])
    assert torch.equal(columns.full_tensor(), matrix)
    uneven = distribute_tensor(torch.arange(float(ranks + 1)), mesh, [Shard(0)])
    assert torch.equal(uneven.redistribute(mesh, [Replicate()]).to_local(), torch.arange(float(ranks + 1)))
    assert isinstance(rows.sum(), DTensor) and rows.sum().full_tensor() == matrix.sum()


def zero():
    """Optimizer state that is shared out."""
    module = nn.parallel.DistributedDataParallel(model())
    optimizer = ZeroRedundancyOptimizer(module.parameters(), torch.optim.AdamW, lr=1e-2)
    trained(module, optimizer, mine())
    same(module.module.state_dict(), wanted, "ZeRO")


def functions():
    group = dist.group.WORLD
    block = torch.full((4,), rank + 1.0)
    total = ranks * (ranks + 1) / 2
    assert (functional.all_reduce(block, "sum", group) == total).all()
    for one in functional.all_reduce_coalesced([block, block + 1], "sum", group):
        assert one[0] in (total, total + ranks)
    for one in functional.all_gather_into_tensor_coalesced([block, block[:2]], group):
        assert one.view(ranks, -1)[:, 0].tolist() == [r + 1.0 for r in range(ranks)]
    for one in functional.reduce_scatter_tensor_coalesced([torch.ones(4 * ranks), torch.ones(ranks)], "sum", [0, 0], group):
        assert (one == ranks).all()
    assert functional.all_to_all_single(torch.full((ranks,), float(rank)), None, None, group).tolist() == list(range(ranks))
    assert functional.broadcast(block, 1, group).tolist() == [2.0] * 4


wanted = alone()
for feature in (sharded_once, sharded, tensor_parallel, zero, functions):
    feature()
    dist.barrier()
dist.destroy_process_group()
print("features: ok", flush=True)
