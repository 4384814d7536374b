#!/usr/bin/env bash
# The functional reduce_scatter of torch multiplies real and imaginary parts of complex numbers apart from each other.
#
# torch.distributed refuses the product, the maximum, and the minimum of complex tensors, since it sends them as pairs
# of reals, and its functional all_reduce refuses them too. The functional reduce_scatter, of which DTensor and compiled
# programs are made, takes them and returns what is no product: 1+5j times 2+1j becomes 2+5j. The sum is right.
#
# Seen with torch 2.13.0 (CPU, gloo), two ranks with 1+5j and 2+1j each for rank 0, what rank 0 gets:
#                                            sum       product    max
#   functional reduce_scatter_single         (3+6j)    (2+5j)     (2+5j)
#   functional all_reduce                    (3+6j)    refused    refused
#   torch.distributed.reduce_scatter_single  (3+6j)    refused    refused
#   right                                    (3+6j)    (-3+11j)   none
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


def scattered(own, operation):
    result = torch.zeros(1, dtype=own.dtype)
    dist.reduce_scatter_single(result, own, getattr(dist.ReduceOp, operation.upper()))
    return result


def worker(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    own = torch.tensor([[1 + 5j, 0], [2 + 1j, 0]][rank])
    for collective in (
        lambda operation: functional.reduce_scatter_single(own, operation, 0, dist.group.WORLD),
        lambda operation: functional.all_reduce(own, operation, dist.group.WORLD),
        lambda operation: scattered(own, operation),
    ):
        seen = []
        for operation in ("sum", "product", "max"):
            try:
                seen.append((collective(operation) + 0)[0].item())
            except (RuntimeError, ValueError):
                seen.append("refused")
        if rank == 0:
            print(*seen, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    processes.spawn(worker, (sys.argv[1],), 2)
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder/store" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = '(3+6j) (2+5j) (2+5j)
(3+6j) refused refused
(3+6j) refused refused' ] || { echo 'changed'; exit 1; }
echo 'as seen'
