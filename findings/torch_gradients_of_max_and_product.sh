#!/usr/bin/env bash
# The differentiable collectives of torch.distributed.nn give wrong gradients after a maximum or a product.
#
# torch.distributed.nn.functional.all_reduce takes an operation. Its backward pass applies the same operation to the
# gradients and never looks at the values: after a maximum each rank gets the gradient 1, whoever had the maximum, and
# after a product the other factors do not appear. The only warning says that the call is deprecated. The functional
# collectives that replace it refuse to compute such a gradient.
#
# Seen with torch 2.13.0 (CPU, gloo), two ranks that hold 2 and 5, each with the result as its loss:
#             result   gradients   right
#   SUM       7        2 2         2 2
#   PRODUCT   10       1 1         10 4
#   MAX       5        1 1         0 2
#   functional collectives, max: RuntimeError, "backward only supports 'sum' reduction"
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
import torch.distributed._functional_collectives as functional
import torch.multiprocessing as processes
from torch.distributed.nn.functional import all_reduce


def worker(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    for operation in ("SUM", "PRODUCT", "MAX"):
        own = torch.tensor([2.0, 5.0][rank], requires_grad=True)
        result = all_reduce(own, getattr(dist.ReduceOp, operation))
        result.backward()
        gradients = [None, None]
        dist.all_gather_object(gradients, int(own.grad))
        if rank == 0:
            print(operation, int(result), *gradients, flush=True)
    own = torch.tensor(2.0, requires_grad=True)
    try:
        functional.all_reduce(own * 1, "max", dist.group.WORLD).backward()
        refused = False
    except RuntimeError:
        refused = True
    if rank == 0:
        print("refused:", refused, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    processes.spawn(worker, (sys.argv[1],), 2)
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder/store" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = 'SUM 7 2 2
PRODUCT 10 1 1
MAX 5 1 1
refused: True' ] || { echo 'changed'; exit 1; }
echo 'as seen'
