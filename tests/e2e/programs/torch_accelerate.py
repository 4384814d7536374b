"""Hugging Face accelerate on CPUs: it takes the process group that there is; without one it would make a group of gloo."""

import accelerate
import penstock.torch  # noqa: F401, makes the back end known
import torch
import torch.distributed as dist

dist.init_process_group("penstock")
accelerator = accelerate.Accelerator(cpu=True)
rank, ranks = dist.get_rank(), dist.get_world_size()
assert (accelerator.process_index, accelerator.num_processes) == (rank, ranks)
assert accelerator.gather(torch.tensor([rank])).tolist() == list(range(ranks))
assert accelerator.reduce(torch.ones(3), reduction="sum").tolist() == [ranks] * 3
torch.manual_seed(rank)
model = torch.nn.Linear(8, 1)
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
accelerator.backward(model(torch.rand(4, 8)).sum())
optimizer.step()
weights = accelerator.gather(next(model.parameters()).detach())
assert all(torch.equal(weights[0], other) for other in weights[1:]), "the ranks' weights differ after a step"
assert dist.get_backend() == "penstock"
accelerator.wait_for_everyone()
dist.destroy_process_group()
print("accelerate: ok", flush=True)
