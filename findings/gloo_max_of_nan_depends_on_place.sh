#!/usr/bin/env bash
# torch.distributed over gloo: whether all_reduce with MAX keeps a NaN depends on the element's place in the tensor.
#
# torch.max and torch.maximum always give NaN if there is one. gloo compares, and a comparison with NaN is false, so the
# operand that stands on one side stays. Each rank reduces its own part of the tensor, and with the part the sides change:
# the same rank's NaN survives in the first half of the tensor and vanishes in the second. A test for NaN by the maximum of
# the gradients finds it or not, by where the parameter happens to lie in its bucket. MIN does the same.
#
# Seen with torch 2.13.0 (CPU), two ranks, four elements of which one rank has NaN and the other 1:
#   NaN on rank 0   nan nan 1 1
#   NaN on rank 1   1 1 nan nan
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
    for holder in (0, 1):
        for operation in (dist.ReduceOp.MAX, dist.ReduceOp.MIN):
            own = torch.full([4], float("nan") if rank == holder else 1.0)
            dist.all_reduce(own, operation)
            if rank == 0:
                print(*(f"{value:g}" for value in own.tolist()), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    processes.spawn(worker, (sys.argv[1],), 2)
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder/store" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = 'nan nan 1 1
nan nan 1 1
1 1 nan nan
1 1 nan nan' ] || { echo 'changed'; exit 1; }
echo 'as seen'
