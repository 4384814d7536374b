"""torchrun --max-restarts: with Penstock the last rank ends itself in the middle of the first attempt, and the second attempt gives the
sums that gloo gives without a death."""

import os
import sys

import common
import torch
import torch.distributed as dist

dist.init_process_group(common.BACKEND)
rank, ranks = dist.get_rank(), dist.get_world_size()
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])
total = torch.zeros(1000)
for step in range(6):
    mine = torch.full((1000,), float(rank + step))
    dist.all_reduce(mine)
    total += mine
    if common.BACKEND == "penstock" and step == 3 and rank == ranks - 1 and attempt == 0:
        sys.stdout.flush()
        os._exit(9)
assert attempt == (1 if common.BACKEND == "penstock" else 0)
common.say(total=total.sum().item())
dist.destroy_process_group()
