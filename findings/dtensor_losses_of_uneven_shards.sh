#!/usr/bin/env bash
# The mean losses of a DTensor whose shards are not equally long are wrong, and for some of them the gradients too.
#
# mse_loss, huber_loss, smooth_l1_loss, and the binary cross entropy take the mean of each rank's shard and then the
# mean of those, so that an element of a short shard counts more. A last batch that does not divide by the number of
# ranks is enough. DTensor's own mean() pays attention to this, and so does l1_loss, which is made of it; cross_entropy
# refuses.
#
# Seen with torch 2.13.0 (CPU, gloo), the elements 0 0 3 against 0 0 0 over two ranks, 2 and 1 of them: the loss and the
# gradient of the last element, of the whole tensor and of the DTensor (bce: binary_cross_entropy_with_logits):
#                     tensor           DTensor
#   mse_loss          3 2              4.5 6
#   smooth_l1_loss    0.8333 0.3333    1.25 1
#   bce               1.478 0.3175     1.871 0.3175
#   l1_loss           1 0.3333         1 0.3333
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
from torch.nn import functional


def worker(rank, store):
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    for name in ("mse_loss", "smooth_l1_loss", "binary_cross_entropy_with_logits", "l1_loss"):
        own = torch.tensor([0.0, 0.0, 3.0], requires_grad=True)
        spread = distribute_tensor(own.detach(), mesh, [Shard(0)]).requires_grad_()
        right = getattr(functional, name)(own, torch.zeros(3))
        seen = getattr(functional, name)(spread, distribute_tensor(torch.zeros(3), mesh, [Shard(0)]))
        right.backward()
        seen.backward()
        values = right, own.grad[2], seen.full_tensor(), spread.grad.full_tensor()[2]
        if rank == 0:
            print(name, *(f"{value.item():.4g}" for value in values), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    processes.spawn(worker, (sys.argv[1],), 2)
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder/store" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = 'mse_loss 3 2 4.5 6
smooth_l1_loss 0.8333 0.3333 1.25 1
binary_cross_entropy_with_logits 1.478 0.3175 1.871 0.3175
l1_loss 1 0.3333 1 0.3333' ] || { echo 'changed'; exit 1; }
echo 'as seen'
