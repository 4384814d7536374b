"""torch.distributed.pipelining: one stage a rank, 1F1B over 8 micro-batches, 4 steps."""

import common
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

dist.init_process_group(common.BACKEND)
rank, ranks = dist.get_rank(), dist.get_world_size()
torch.manual_seed(40 + rank)
part = nn.Sequential(nn.Linear(20, 20), nn.Tanh())
stage = PipelineStage(part, rank, ranks, torch.device("cpu"))
schedule = Schedule1F1B(stage, n_microbatches=8, loss_fn=nn.functional.mse_loss)
optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
numbers = torch.Generator().manual_seed(4)
losses = []
for _ in range(4):
    inputs = torch.randn(32, 20, generator=numbers)
    found = []
    schedule.step(*([inputs] if rank == 0 else []), **({"target": inputs.roll(1, 1), "losses": found} if rank == ranks - 1 else {}))
    optimizer.step()
    optimizer.zero_grad()
    loss = torch.stack(found).mean().reshape(1) if found else torch.zeros(1)
    dist.broadcast(loss, ranks - 1)
    losses.append(loss.item())
common.say(losses=losses)
dist.destroy_process_group()
