"""FSDP2 (fully_shard), with a checkpoint of torch.distributed.checkpoint in the middle that is loaded again."""

import sys

import common
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

dist.init_process_group(common.BACKEND)
rank = dist.get_rank()
mesh = init_device_mesh("cpu", (dist.get_world_size(),))
torch.manual_seed(2)
model = nn.Sequential(nn.Linear(24, 50), nn.ReLU(), nn.Linear(50, 30), nn.ReLU(), nn.Linear(30, 6))
for layer in model:
    if list(layer.parameters()):
        fully_shard(layer, mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
numbers = torch.Generator().manual_seed(200 + rank)
losses = []
for step in range(6):
    if step == 3:
        dcp.save({"model": model.state_dict()}, checkpoint_id=sys.argv[1])
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
        state = {"model": model.state_dict()}
        dcp.load(state, checkpoint_id=sys.argv[1])
        model.load_state_dict(state["model"])
    inputs = torch.randn(8, 24, generator=numbers)
    loss = (model(inputs) - inputs[:, :6]).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    losses.append(mean.item())
common.say(losses=losses)
dist.destroy_process_group()
