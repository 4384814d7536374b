#!/usr/bin/env bash
# A DTensor loses what is written into one of its elements, rows or slices, if they are taken along the dimension that is
# spread over the ranks.
#
# d[0] is a view in torch, and d[0].fill_(9) changes d. For a DTensor that is sharded along this dimension d[0] is a copy,
# made by exchanging data, and the write goes there, without an error. d[2] = 9 of a single number is lost in the same
# way. Slices of another dimension are views as usual. It happens to torch's own Embedding: reset_parameters, which a model
# from the meta device needs after fully_shard, is to set the row of padding_idx to 0, and leaves it random.
#
# Seen with torch 2.13.0 (CPU, gloo), two ranks, 1 2 / 3 4 sharded by rows:
#   d[0].fill_(9)                                  1 2 / 3 4
#   d[1:].zero_()                                  1 2 / 3 4
#   d[1, 1] = 9                                    1 2 / 3 4
#   d[:, :1].zero_()                               0 2 / 0 4
#   Embedding, padding row after reset_parameters  not zero    without fully_shard zero
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6 2>/dev/null
cat >"$folder/case.py" <<'PYTHON'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Shard, distribute_tensor


def assign(spread):
    spread[1, 1] = 9


def padding_row(shard):
    embedding = torch.nn.Embedding(4, 3, padding_idx=0)
    if shard:
        fully_shard(embedding)
    embedding.reset_parameters()
    weight = embedding.weight.detach()
    return (weight.full_tensor() if isinstance(weight, DTensor) else weight)[0]


def worker(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    writes = {
        "d[0].fill_(9)": lambda spread: spread[0].fill_(9),
        "d[1:].zero_()": lambda spread: spread[1:].zero_(),
        "d[1, 1] = 9": assign,
        "d[:, :1].zero_()": lambda spread: spread[:, :1].zero_(),
    }
    results = []
    for name, write in writes.items():
        spread = distribute_tensor(torch.tensor([[1, 2], [3, 4]]), mesh, [Shard(0)])
        write(spread)
        rows = spread.full_tensor().tolist()
        results.append(f"{name}: " + " / ".join(" ".join(map(str, row)) for row in rows))
    for shard in False, True:
        zero = not padding_row(shard).any()
        results.append(f"padding row, {'sharded' if shard else 'whole'}: {'zero' if zero else 'not zero'}")
    if rank == 0:
        print("\n".join(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    processes.spawn(worker, (sys.argv[1],), 2)
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder/store" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = 'd[0].fill_(9): 1 2 / 3 4
d[1:].zero_(): 1 2 / 3 4
d[1, 1] = 9: 1 2 / 3 4
d[:, :1].zero_(): 0 2 / 0 4
padding row, whole: zero
padding row, sharded: not zero' ] || { echo 'changed'; exit 1; }
echo 'as seen'
