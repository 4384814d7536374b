"""DistributedDataParallel: a small network with many buckets, 8 steps."""

import common
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(common.BACKEND)
rank = dist.get_rank()
torch.manual_seed(1)
model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 8)), bucket_cap_mb=0.004)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
numbers = torch.Generator().manual_seed(100 + rank)
losses = []
for _ in range(8):
    inputs = torch.randn(16, 32, generator=numbers)
    loss = (model(inputs) - inputs[:, :8]).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    mean = loss.detach().clone()
    dist.all_reduce(mean, op=dist.ReduceOp.SUM)
    losses.append(mean.item() / dist.get_world_size())
common.say(losses=losses)
dist.destroy_process_group()
