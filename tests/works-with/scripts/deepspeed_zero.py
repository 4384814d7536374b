"""DeepSpeed on CPUs: ZeRO of stage 2."""

import os

import common
import deepspeed
import torch
import torch.distributed as dist
from torch import nn

dist.init_process_group(common.BACKEND)
torch.manual_seed(7)
model = nn.Sequential(nn.Linear(16, 40), nn.Tanh(), nn.Linear(40, 4))
engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), dist_init_required=False, config={
    "train_micro_batch_size_per_gpu": 6, "optimizer": {"type": "Adam", "params": {"lr": 0.01, "torch_adam": True}},
    "zero_optimization": {"stage": int(os.environ.get("STAGE", "2"))}, "bf16": {"enabled": False}, "wall_clock_breakdown": False})
numbers = torch.Generator().manual_seed(70 + dist.get_rank())
losses = []
for _ in range(5):
    inputs = torch.randn(6, 16, generator=numbers)
    loss = (engine(inputs) - inputs[:, :4]).square().mean()
    engine.backward(loss)
    engine.step()
    mean = loss.detach().clone()
    dist.all_reduce(mean)
    losses.append(mean.item())
common.say(losses=losses)
dist.destroy_process_group()
