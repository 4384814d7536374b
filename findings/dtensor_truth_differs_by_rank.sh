#!/usr/bin/env bash
# item(), float() and bool() of a reduced DTensor give each rank its own share, not the result.
#
# A DTensor is used like the whole tensor, and its sum, max or any() has no dimension left. But the result is only
# "partial": the combination of the ranks' shares is put off until somebody needs it. item() does not count as that.
# So "if loss.isnan().any(): break" ends the loop on one rank and not on the others, which then wait for it in their next
# collective, and each rank logs another sum. mean().item() is right, and so is a comparison before bool().
#
# Seen with torch 2.13.0 (CPU, gloo), the tensor 1 5 nan over two ranks, and 1 5 3:
#                              rank 0   rank 1   right
#   bool(isnan().any())        False    True     True
#   sum().item() of 1 5 3      6        3        9
#   max().item()               5        3        5
#   mean().item()              3        3        3
#   bool(sum() > 8)            True     True     True
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
    mesh = init_device_mesh("cpu", (2,))
    loss = distribute_tensor(torch.tensor([1.0, 5.0, float("nan")]), mesh, [Shard(0)])
    whole = distribute_tensor(torch.tensor([1.0, 5.0, 3.0]), mesh, [Shard(0)])
    own = [bool(loss.isnan().any()), whole.sum().item(), whole.max().item(), whole.mean().item(), bool(whole.sum() > 8)]
    results = [None, None]
    dist.all_gather_object(results, own)
    if rank == 0:
        for result in results:
            print(*result, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    processes.spawn(worker, (sys.argv[1],), 2)
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder/store" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = 'False 6.0 5.0 3.0 True
True 3.0 3.0 3.0 True' ] || { echo 'changed'; exit 1; }
echo 'as seen'
