#!/usr/bin/env python3
"""A rank of a training run by FSDP2: a model in the form of Llama, bf16, random data. Rank 0 prints a JSON line.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=4000 lab/bench/fsdp.py --backend penstock --device cuda

On CUDA it has about 1.0 billion parameters in 4 layers, and all ranks share GPU 0; on the CPU it is tiny. Every back end
computes the same, so losses can be compared step by step.
"""
import argparse
import json
import os
import statistics
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # set before CUDA starts, so that sums are the same each time

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.attention import SDPBackend, sdpa_kernel

SHAPES = {  # layers, width, heads, width of the feed-forward part, words, words of a sequence
    "cuda": (4, 4096, 32, 11008, 32000, 512),
    "cpu": (2, 64, 4, 160, 256, 32),
}


class Layer(torch.nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList(torch.nn.RMSNorm(width) for _ in range(2))
        self.query_key_value = torch.nn.Linear(width, 3 * width, bias=False)
        self.out = torch.nn.Linear(width, width, bias=False)
        self.gate_up = torch.nn.Linear(width, 2 * inner, bias=False)
        self.down = torch.nn.Linear(inner, width, bias=False)

    def forward(self, x):
        rows, words, width = x.shape
        parts = self.query_key_value(self.norms[0](x)).view(rows, words, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(rows, words, width))
        gate, up = self.gate_up(self.norms[1](x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Model(torch.nn.Module):
    def __init__(self, layers, width, heads, inner, words):
        super().__init__()
        self.embedding = torch.nn.Embedding(words, width)
        self.layers = torch.nn.ModuleList(Layer(width, heads, inner) for _ in range(layers))
        self.norm = torch.nn.RMSNorm(width)
        self.head = torch.nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def sharded(shape, mesh):
    """Makes the same parameters on each rank before they are distributed."""
    device = mesh.device_type
    torch.manual_seed(1)
    with torch.device(device):
        model = Model(*shape)
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.02)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.bfloat16)
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    return fully_shard(model, mesh=mesh, mp_policy=policy)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=["penstock", "nccl", "gloo"], required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--rows", type=int, default=2, help="sequences of a step and rank")
    options = parser.parse_args()
    if options.backend == "penstock":
        import penstock.torch  # noqa: F401, makes the back end known
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.use_deterministic_algorithms(True, warn_only=True)
    if options.device == "cuda":
        torch.cuda.set_device(0)  # before the mesh chooses one by LOCAL_RANK
    dist.init_process_group(options.backend)
    *shape, length = SHAPES[options.device]
    model = sharded(shape, init_device_mesh(options.device, (ranks,)))
    parameters = sum(parameter.numel() for parameter in model.parameters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=True)
    chance = torch.Generator().manual_seed(100 + rank)
    losses, seconds = [], []
    for _ in range(options.steps):
        begin = time.perf_counter()
        tokens = torch.randint(shape[-1], (options.rows, length + 1), generator=chance).to(options.device)
        with sdpa_kernel(SDPBackend.MATH):  # its gradient is the same each time
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())  # waits for the step
        seconds.append(time.perf_counter() - begin)
    if rank == 0:
        print(json.dumps({"backend": options.backend, "ranks": ranks, "parameters": parameters, "losses": losses, "seconds": seconds,
                          "median_seconds": statistics.median(seconds[2:] or seconds), "cpu_seconds": time.process_time()}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
