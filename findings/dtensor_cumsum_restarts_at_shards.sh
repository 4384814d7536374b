#!/usr/bin/env bash
# cumsum(-1) of a DTensor begins anew at each shard, where cumsum of the same dimension by its positive number is right.
#
# A running sum along the dimension that is spread over the ranks needs the sums of the ranks before. DTensor sees to it
# where the dimension is counted from the front. It does not recognize the same dimension counted from the end, and each
# rank adds up its own shard, without an error. cumprod and logcumsumexp do so too; cummax and cummin are right. Positions
# from a mask, offsets from lengths, and the cut of top-p sampling are usually written with dim=-1.
#
# Seen with torch 2.13.0 (CPU, gloo), the tensor 1 2 3 4 over two ranks:
#                  dim 0       dim -1
#   cumsum         1 3 6 10    1 3 3 7
#   cumprod        1 2 6 24    1 2 3 12
#   cummax         1 2 3 4     1 2 3 4
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
from torch.distributed.tensor import Shard, distribute_tensor


def worker(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    spread = distribute_tensor(torch.tensor([1, 2, 3, 4]), init_device_mesh("cpu", (2,)), [Shard(0)])
    running = {
        "cumsum": lambda dim: spread.cumsum(dim),
        "cumprod": lambda dim: spread.cumprod(dim),
        "cummax": lambda dim: spread.cummax(dim).values,
    }
    for name, call in running.items():
        by_dim = [call(dim).full_tensor().tolist() for dim in (0, -1)]
        if rank == 0:
            print(name, "/".join(" ".join(map(str, values)) for values in by_dim), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    processes.spawn(worker, (sys.argv[1],), 2)
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder/store" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = 'cumsum 1 3 6 10/1 3 3 7
cumprod 1 2 6 24/1 2 3 12
cummax 1 2 3 4/1 2 3 4' ] || { echo 'changed'; exit 1; }
echo 'as seen'
