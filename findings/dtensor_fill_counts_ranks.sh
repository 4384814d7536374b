#!/usr/bin/env bash
# fill_(3) on the sum of a DTensor makes it 3 times the number of ranks.
#
# The sum of a sharded DTensor is not added up yet: each rank holds its share. fill_ writes the value into every share,
# and the shares are added later. The same with empty_like(total).fill_(3), while full_like, copy_, and the assignment
# of one element are right, and add_ and clamp_ refuse such a tensor. zero_ hides it, and so does a maximum or a mean,
# since the combination of equal shares is the value itself.
#
# Seen with torch 2.13.0 (CPU, gloo), the rows 1 2 / 3 4 over two ranks, summed to 4 6 (and their maximum, 3 4):
#   total.fill_(3)                6 6
#   empty_like(total).fill_(3)    6 6
#   full_like(total, 3)           3 3
#   total[0] = 3                  3 6
#   maximum.fill_(3)              3 3
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
    rows = distribute_tensor(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), init_device_mesh("cpu", (2,)), [Shard(0)])
    assigned = rows.sum(0)
    assigned[0] = 3
    results = (
        rows.sum(0).fill_(3),
        torch.empty_like(rows.sum(0)).fill_(3),
        torch.full_like(rows.sum(0), 3),
        assigned,
        rows.amax(0).fill_(3),
    )
    for result in results:
        values = result.full_tensor().tolist()
        if rank == 0:
            print(*(f"{value:g}" for value in values), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    processes.spawn(worker, (sys.argv[1],), 2)
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder/store" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = '6 6
6 6
3 3
3 6
3 3' ] || { echo 'changed'; exit 1; }
echo 'as seen'
