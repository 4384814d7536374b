"""accelerate: a prepared model, optimizer and loader; gradients are accumulated, and metrics gathered."""

import common
import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group(common.BACKEND)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
torch.manual_seed(5)
data = torch.randn(120, 12)
model = nn.Linear(12, 3)
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), lr=0.1), DataLoader(TensorDataset(data), batch_size=5))
losses = []
for (batch,) in loader:
    with accelerator.accumulate(model):
        loss = (model(batch) - batch[:, :3]).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    losses.append(accelerator.gather(loss.detach().reshape(1)).mean().item())
common.say(losses=losses)
accelerator.end_training()
