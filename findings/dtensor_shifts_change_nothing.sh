#!/usr/bin/env bash
# The operators << and >> of a DTensor return its values unshifted, without an error.
#
# d << 1 computes the shift and drops it: the result holds the values of d, however d is placed, on one rank already.
# DTensor takes an operation for an in-place one by the last character of its name, and the shifts are called __lshift__
# and __rshift__. The other operators of integers (&, |, ^, %, //) are right, and so is torch.bitwise_left_shift. A
# program that packs two small numbers into one, or masks 4-bit weights out of bytes, goes on with wrong numbers.
#
# Seen with torch 2.13.0 (CPU, gloo), one rank, the values 1 6 12 in a tensor and in a DTensor of it:
#                             tensor     DTensor
#   d << 1                    2 12 24    1 6 12
#   d >> 1                    0 3 6      1 6 12
#   bitwise_left_shift        2 12 24    2 12 24
#   (d & 12) >> 2             0 1 3      0 4 12
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
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
whole = torch.tensor([1, 6, 12])
spread = distribute_tensor(whole, init_device_mesh("cpu", (1,)), [Shard(0)])
for operation in (
    lambda values: values << 1,
    lambda values: values >> 1,
    lambda values: torch.bitwise_left_shift(values, 1),
    lambda values: (values & 12) >> 2,
):
    print(*operation(whole).tolist(), "/", *operation(spread).full_tensor().tolist())
dist.destroy_process_group()
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder/store" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = '2 12 24 / 1 6 12
0 3 6 / 1 6 12
2 12 24 / 2 12 24
0 1 3 / 0 4 12' ] || { echo 'changed'; exit 1; }
echo 'as seen'
