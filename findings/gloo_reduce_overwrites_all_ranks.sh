#!/usr/bin/env bash
# torch.distributed over gloo: reduce overwrites the tensors of the ranks that are not its destination.
#
# reduce gives its result to one rank. With three ranks over gloo the other ranks' tensors change as well: some elements
# hold the final sum and others a partial one, so a rank that uses its tensor afterwards computes with neither its own
# values nor the result. reduce_scatter_tensor leaves its input alone.
#
# Seen with torch 2.13.0 (CPU), three ranks that hold 0 1 2 3 plus ten times the rank, reduce to rank 0:
#   rank 0   30 33 36 39      the sum
#   rank 1   30 32 36 39      was 10 11 12 13
#   rank 2   20 21 24 26      was 20 21 22 23
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
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=3)
    own = torch.arange(4.0) + 10 * rank
    dist.reduce(own, 0)
    results = [None] * 3
    dist.all_gather_object(results, [int(value) for value in own.tolist()])
    if rank == 0:
        for result in results:
            print(*result, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    processes.spawn(worker, (sys.argv[1],), 3)
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder/store" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
mapfile -t ranks <<<"$seen"
[ "${ranks[0]}" = '30 33 36 39' ] || { echo 'changed: expected the sum on rank 0'; exit 1; }
[ "${ranks[1]}" != '10 11 12 13' ] || { echo 'changed: rank 1 kept its values'; exit 1; }
[ "${ranks[1]}" != "${ranks[0]}" ] || { echo 'changed: rank 1 has the whole sum'; exit 1; }
echo 'as seen'
