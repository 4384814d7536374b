"""DTensor: matrix products by column and by row, a softmax over a sharded dimension, redistribution, tensor parallelism."""

import common
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

dist.init_process_group(common.BACKEND)
ranks = dist.get_world_size()
mesh = init_device_mesh("cpu", (ranks,))
torch.manual_seed(3)
left, right = torch.randn(12, 24, dtype=torch.float64), torch.randn(24, 36, dtype=torch.float64)
by_column = distribute_tensor(left, mesh, [Replicate()]) @ distribute_tensor(right, mesh, [Shard(1)])
by_row = distribute_tensor(left, mesh, [Shard(1)]) @ distribute_tensor(right, mesh, [Shard(0)])
chances = torch.softmax(by_column, dim=1)
moved = by_column.redistribute(mesh, [Shard(0)]).redistribute(mesh, [Shard(1)])
assert torch.allclose(by_column.full_tensor(), left @ right) and torch.allclose(by_row.full_tensor(), left @ right)
model = nn.Sequential(nn.Linear(16, 48), nn.GELU(), nn.Linear(48, 16))
parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
model(torch.randn(5, 16)).square().sum().backward()
gradients = [parameter.grad.full_tensor().norm().item() for parameter in model.parameters()]
common.say(column=by_column.full_tensor().sum().item(), row=by_row.full_tensor().norm().item(), softmax=chances.full_tensor()[3].tolist(),
           moved=moved.full_tensor().sum().item(), gradients=gradients)
dist.destroy_process_group()
