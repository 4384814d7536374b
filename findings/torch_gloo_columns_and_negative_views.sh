#!/usr/bin/env bash
# torch.distributed over gloo: some collectives ignore the strides and the lazy negation of a tensor, without an error.
#
# A column of a matrix, or a real tensor with its negative bit set (imag of a conjugate is one), is an ordinary tensor to
# every other operation of torch. Over gloo all_reduce, broadcast, reduce, scatter and the output of reduce_scatter treat
# the storage as a dense array of plain values: the column gets elements of its neighbour column, and a negation is lost.
# all_gather and gather get it right. So the answer depends on which collective is called.
#
# Seen with torch 2.13.0 (CPU), 2 ranks, both with the values 1 and 2, or one of them as the root:
#                       column            negated
#   all_reduce          2, 2              1, 2           right: 2, 4
#   broadcast           1, 0              0, 0           right: 1, 2
#   reduce              2, 2              1, 2           right: 2, 4
#   scatter             1, 91             -1, -2         right: 1, 2   (91 is of the next column)
#   reduce_scatter      2, 2              0, 0           right: 2, 4   (output)
#   all_gather          1, 2              1, 2           right
#   gather              1, 2              1, 2           right
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6 2>/dev/null
cat >"$folder/case.py" <<'PYTHON'
import os
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as processes


def column(*values):
    return torch.tensor([[float(value), 90.0 + value] for value in values])[:, 0]


def negated(*values):
    return torch._neg_view(torch.tensor([-float(value) for value in values]))


def run_case(operation, make, rank):
    """What rank 0 gets: a list of two values."""
    dense = torch.tensor([1.0, 2.0])
    if operation == "all_reduce":
        got = make(1, 2)
        dist.all_reduce(got)
    elif operation == "reduce":
        got = make(1, 2)
        dist.reduce(got, 0)
    elif operation == "broadcast":
        got = make(1, 2) if rank == 1 else make(0, 0)
        dist.broadcast(got, 1)
    elif operation == "scatter":
        got = torch.zeros(2)
        dist.scatter(got, [make(1, 2), make(1, 2)] if rank == 1 else None, 1)
    elif operation == "reduce_scatter":
        got = make(0, 0)
        dist.reduce_scatter(got, [dense, dense])
    elif operation == "all_gather":
        parts = [make(0, 0), make(0, 0)]
        dist.all_gather(parts, make(1, 2))
        got = parts[1]
    elif operation == "gather":
        parts = [make(0, 0), make(0, 0)]
        dist.gather(make(1, 2), parts if rank == 0 else None, 0)
        got = parts[1]
    return [int(value) for value in got.tolist()]


def worker(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    for operation in ("all_reduce", "broadcast", "reduce", "scatter", "reduce_scatter", "all_gather", "gather"):
        results = [run_case(operation, make, rank) for make in (column, negated)]
        dist.barrier()
        if rank == 0:
            print(operation, *results, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    processes.spawn(worker, (sys.argv[1],), 2)
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder/store" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
expected='all_reduce [2, 2] [1, 2]
broadcast [1, 0] [0, 0]
reduce [2, 2] [1, 2]
scatter [1, 91] [-1, -2]
reduce_scatter [2, 2] [0, 0]
all_gather [1, 2] [1, 2]
gather [1, 2] [1, 2]'
[ "$seen" = "$expected" ] || { echo 'changed'; exit 1; }
echo 'as seen'
