#!/usr/bin/env bash
# torch.distributed over gloo: the sum of booleans is kept in a byte, and True becomes False once it wraps.
#
# all_reduce with SUM of a bool tensor is accepted and looks like a logical or: True and True give True. But the tensor's
# byte then holds 2, which no other operation leaves in a bool tensor, and the next sum goes on from there. Eight in-place
# sums over two ranks, or one over 256 ranks, reach 256, which is 0: False, although every rank gave True. A flag that
# says "somebody has more to do" ends a loop too early. MAX and BOR stay 0 and 1.
#
# Seen with torch 2.13.0 (CPU), two ranks, nine in-place sums of a tensor that holds True:
#   SUM   1 1 1 1 1 1 1 0 0
#   BOR   1 1 1 1 1 1 1 1 1
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


def worker(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    for operation in ("SUM", "BOR"):
        flag = torch.tensor([True])
        seen = []
        for _ in range(9):
            dist.all_reduce(flag, getattr(dist.ReduceOp, operation))
            seen.append(int(flag.item()))
        if rank == 0:
            print(operation, *seen, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    processes.spawn(worker, (sys.argv[1],), 2)
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder/store" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = 'SUM 1 1 1 1 1 1 1 0 0
BOR 1 1 1 1 1 1 1 1 1' ] || { echo 'changed'; exit 1; }
echo 'as seen'
