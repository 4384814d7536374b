#!/usr/bin/env bash
# A distributed checkpoint of torch keeps one rank's copy of each value that is not a DTensor, and not the same rank's for
# all of them: what is loaded is a state that no rank ever had.
#
# Ordinary tensors, numbers and objects count as equal on all ranks, and only one copy of each is written. To share out the
# work, each goes to the rank that has the least to write so far, which depends on the sizes and the order of the others.
# A rank's own data (the state of its random numbers, its place in its part of the data) is taken for a copy as well. That
# all ranks get one rank's values might be guessed. But a pair that belongs together comes back as the file number of one
# rank and the offset of another one, without a warning.
#
# Seen with torch 2.13.0 (CPU, gloo), two ranks, of which rank 0 holds 10 and rank 1 holds 20 under each name; the same on
# both ranks after dcp.save and dcp.load:
#   file     10   tensor
#   offset   20   tensor
#   seed     10   tensor
#   epoch    20   number
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
import torch.distributed.checkpoint as checkpoint
import torch.multiprocessing as processes


def state(value):
    tensors = {name: torch.tensor([value]) for name in ("file", "offset", "seed")}
    return {**tensors, "epoch": value}


def worker(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2)
    checkpoint.save(state(10 * (rank + 1)), checkpoint_id=f"{folder}/saved")
    loaded = state(0)
    checkpoint.load(loaded, checkpoint_id=f"{folder}/saved")
    values = [None] * 2
    dist.all_gather_object(values, " ".join(f"{name} {int(value)}" for name, value in loaded.items()))
    if rank == 0:
        print("\n".join(values))
    dist.destroy_process_group()


if __name__ == "__main__":
    processes.spawn(worker, (sys.argv[1],), 2)
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
both='file 10 offset 20 seed 10 epoch 20'
[ "$seen" = "$both
$both" ] || { echo "changed: expected $both on both ranks"; exit 1; }
echo 'as seen'
