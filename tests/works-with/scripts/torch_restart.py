"""torchrun --max-restarts: the last rank ends itself in the middle of the first attempt; the second attempt finishes."""

import os
import sys

import common
import torch
import torch.distributed as dist

dist.init_process_group(common.BACKEND)
rank, ranks = dist.get_rank(), dist.get_world_size()
total = torch.zeros(1000)
for step in range(6):
    mine = torch.full((1000,), float(rank + step))
    dist.all_reduce(mine)
    total += mine
    if step == 3 and rank == ranks - 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        sys.stdout.flush()
        os._exit(9)
common.say(total=total.sum().item(), attempts=int(os.environ["TORCHELASTIC_RESTART_COUNT"]) + 1)
dist.destroy_process_group()
