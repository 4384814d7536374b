"""Training a small Llama-style transformer on several hosts, over any back end of torch.distributed.

    torchrun --nproc-per-node 4 examples/train.py                      over a pool
    torchrun --nproc-per-node 4 examples/train.py --backend gloo       over TCP, to compare

The model reads bytes. Its text is generated: sums in words, so that it has something to learn within a minute.
With --parallel fsdp parameters, gradients and optimizer state are sharded over the ranks (FSDP2), with ddp each rank has
all of them. --checkpoint FOLDER saves at the end, and the next run goes on from there, also with another number of
ranks. --losses FILE writes the losses and the seconds of each step; --plot FILE draws them, together with those of --compare FILE.
"""

import argparse
import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
         "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--backend", default="penstock")
    parser.add_argument("--parallel", choices=["ddp", "fsdp"], default="fsdp")
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="of fsdp's arithmetic")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--batch", type=int, default=16, help="sequences of all ranks together, in a step")
    parser.add_argument("--length", type=int, default=64, help="bytes of a sequence")
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--losses", type=Path)
    parser.add_argument("--compare", type=Path, help="losses of another run, for the plot")
    parser.add_argument("--plot", type=Path)
    return parser.parse_args()


def text(sentences=4000, seed=1):
    """Equal on all ranks."""
    random = torch.Generator().manual_seed(seed)
    pairs = torch.randint(0, 10, (sentences, 2), generator=random).tolist()
    sums = (f"{WORDS[a]} plus {WORDS[b]} is {WORDS[a + b]}. " for a, b in pairs)
    return torch.tensor(list("".join(sums).encode()), dtype=torch.long)


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return self.scale * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)


def rotate(x, base=10000.0):
    """Rotary position embedding of (batch, heads, length, channels)."""
    length, channels = x.shape[-2:]
    rates = base ** (-torch.arange(0, channels, 2, dtype=x.dtype) / channels)
    angles = torch.arange(length, dtype=x.dtype)[:, None] * rates
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = (even * angles.cos() - odd * angles.sin(), even * angles.sin() + odd * angles.cos())
    return torch.stack(turned, -1).flatten(-2)


class Block(nn.Module):
    def __init__(self, width, heads=6):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = RMSNorm(width), RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        hidden = 8 * width // 3
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        qkv = self.qkv(self.before_attention(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(rotate(q), rotate(k), v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        y = self.before_mlp(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    def __init__(self, width, layers, symbols=128):
        super().__init__()
        self.embedding = nn.Embedding(symbols, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, symbols, bias=False)

    def forward(self, symbols):
        x = self.embedding(symbols)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def shard(model, dtype):
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=dtype)
    for block in model.blocks:
        fully_shard(block, mp_policy=policy)
    return fully_shard(model, mp_policy=policy)


class Batches:
    """A step uses the same sequences for any number of ranks; each rank takes its share."""

    def __init__(self, options, rank, ranks):
        if options.batch % ranks != 0:
            sys.exit(f"--batch {options.batch} is no multiple of the {ranks} ranks: give a multiple")
        self.text, self.options = text(), options
        self.mine = slice(rank * options.batch // ranks, (rank + 1) * options.batch // ranks)

    def of_step(self, step):
        random = torch.Generator().manual_seed(1000 + step)
        last = len(self.text) - self.options.length - 1
        starts = torch.randint(0, last, (self.options.batch,), generator=random)[self.mine]
        rows = torch.stack([self.text[start:start + self.options.length + 1] for start in starts.tolist()])
        return rows[:, :-1], rows[:, 1:]


def seconds_of_communication():
    """Of this rank so far; None if this back end does not tell."""
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    return getattr(backend, "communication_seconds", None)


def train(options, model, optimizer, first, rank, ranks):
    from tqdm import tqdm
    batches, losses, seconds = Batches(options, rank, ranks), [], []
    bar = tqdm(total=options.steps, disable=rank != 0, unit="step", file=sys.stdout)
    begin, communicated = time.perf_counter(), seconds_of_communication()
    for step in range(first, first + options.steps):
        began = time.perf_counter()
        symbols, following = batches.of_step(step)
        loss = F.cross_entropy(model(symbols).float().flatten(0, 1), following.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        losses.append(mean.item())
        seconds.append(time.perf_counter() - began)
        taken = time.perf_counter() - begin
        figures = {"loss": f"{losses[-1]:.4f}",
                   "tokens/s": f"{len(losses) * options.batch * options.length / taken:.0f}"}
        if communicated is not None:
            figures["communication"] = f"{(seconds_of_communication() - communicated) / taken:.0%}"
        bar.set_postfix(figures)
        bar.update()
    bar.close()
    return losses, seconds


def plot(options, losses):
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.plot(losses["losses"], label=losses["backend"], linewidth=3, alpha=0.6)
    if options.compare:
        other = json.loads(options.compare.read_text())
        axes.plot(other["losses"], label=other["backend"], linestyle="--")
    axes.set(xlabel="step", ylabel="loss")
    axes.legend()
    figure.savefig(options.plot, bbox_inches="tight")


def main():
    options = arguments()
    if options.backend == "penstock":
        import penstock.torch  # noqa: F401, makes the back end known
    dist.init_process_group(options.backend)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = Llama(options.width, options.layers)
    if rank == 0:
        print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} million parameters, {options.parallel}, "
              f"{ranks} ranks, {options.backend}", flush=True)
    model = DistributedDataParallel(model) if options.parallel == "ddp" else shard(model, getattr(torch, options.dtype))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    first = 0
    if options.checkpoint and (options.checkpoint / ".metadata").exists():
        state, steps = get_state_dict(model, optimizer), {"done": torch.zeros(1)}
        dcp.load({"model": state[0], "optimizer": state[1], "steps": steps}, checkpoint_id=options.checkpoint)
        set_state_dict(model, optimizer, model_state_dict=state[0], optim_state_dict=state[1])
        first = int(steps["done"].item())
        if rank == 0:
            print(f"goes on after step {first}", flush=True)
    losses, seconds = train(options, model, optimizer, first, rank, ranks)
    if options.checkpoint:
        state = get_state_dict(model, optimizer)
        steps = {"done": torch.tensor([float(first + options.steps)])}
        dcp.save({"model": state[0], "optimizer": state[1], "steps": steps}, checkpoint_id=options.checkpoint)
    if rank == 0:
        result = {"backend": options.backend, "ranks": ranks, "first": first, "losses": losses, "seconds": seconds}
        if options.losses:
            options.losses.write_text(json.dumps(result))
        if options.plot:
            plot(options, result)
        print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
