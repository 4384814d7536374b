#!/usr/bin/env bash
# On a DeviceMesh whose ranks are not in ascending order a DTensor comes back with its parts exchanged.
#
# A mesh is given as an array of ranks, in the order in which they are to be neighbours, say along a ring of the machine.
# Where a rank cuts its shard out of a tensor by itself, DTensor goes by the rank's place in the mesh. Where ranks exchange
# data, it goes by their place in the process group, and that is sorted by rank. So the way from replicated to sharded
# and back again permutes the tensor, without an error, and shards made by distribute_tensor do not fit those made by
# redistribute: an addition adds elements that do not belong together. On a mesh in ascending order all of it is right.
#
# Seen with torch 2.13.0 (CPU, gloo), the tensor 10 20 30 on the meshes 0 1 2 and 2 0 1:
#                                            0 1 2       2 0 1
#   sharded by distribute_tensor, gathered   10 20 30    10 20 30
#   replicated, then sharded, gathered       10 20 30    20 30 10
#   the sum of the two, gathered             20 40 60    30 50 40
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
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor


def worker(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=3)
    tensor = torch.tensor([10, 20, 30])
    for order in [0, 1, 2], [2, 0, 1]:
        mesh = DeviceMesh("cpu", order)
        distributed = distribute_tensor(tensor, mesh, [Shard(0)])
        redistributed = distribute_tensor(tensor, mesh, [Replicate()]).redistribute(mesh, [Shard(0)])
        results = [each.full_tensor().tolist() for each in (distributed, redistributed, distributed + redistributed)]
        if rank == 0:
            print(*(" ".join(map(str, each)) for each in [order, *results]), sep=" / ", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    processes.spawn(worker, (sys.argv[1],), 3)
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder/store" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = '0 1 2 / 10 20 30 / 10 20 30 / 20 40 60
2 0 1 / 10 20 30 / 20 30 10 / 30 50 40' ] || { echo 'changed'; exit 1; }
echo 'as seen'
