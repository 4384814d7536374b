#!/usr/bin/env bash
# torch.distributed.new_group sorts its list of ranks: a group's ranks cannot be put in an order of one's own.
#
# MPI_Group_incl gives the group the order of its list, which is how programs map ranks to a torus or a ring. new_group
# takes a list too, but new_group([2, 0, 1]) makes the same group as new_group([0, 1, 2]), without a word: group ranks,
# the order of all_gather, and who gets which part of a scatter follow the global ranks.
#
# Seen with torch 2.13.0 (CPU, gloo), mpich 5.0.2 and mpi4py 4.1.2, three ranks, the list 2 0 1, all_gather of the global rank:
#   torch   0 1 2
#   MPI     2 0 1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6 mpich==5.0.2 mpi4py==4.1.2 2>/dev/null
unset MPI4PY_LIBMPI MPI4PY_MPIABI
cat >"$folder/torch_case.py" <<'PYTHON'
import sys
import torch
import torch.distributed as dist
import torch.multiprocessing as processes


def worker(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=3)
    group = dist.new_group([2, 0, 1])
    gathered = [torch.zeros(1) for _ in range(3)]
    dist.all_gather(gathered, torch.tensor([float(rank)]), group=group)
    if rank == 0:
        print("torch", *(int(each.item()) for each in gathered), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    processes.spawn(worker, (sys.argv[1],), 3)
PYTHON
cat >"$folder/mpi_case.py" <<'PYTHON'
from mpi4py import MPI

world = MPI.COMM_WORLD
group = world.Create_group(world.group.Incl([2, 0, 1]))
gathered = group.allgather(world.rank)
if world.rank == 0:
    print("MPI", *gathered)
PYTHON
seen=$("$folder/venv/bin/python" "$folder/torch_case.py" "$folder/store" 2>"$folder/errors" &&
  "$folder/venv/bin/mpiexec" -n 3 "$folder/venv/bin/python" "$folder/mpi_case.py" 2>>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = 'torch 0 1 2
MPI 2 0 1' ] || { echo 'changed'; exit 1; }
echo 'as seen'
