#!/usr/bin/env bash
# safetensors stores a conjugated or negated torch tensor without the conjugation or the sign, and a transposed numpy array
# untransposed.
#
# PyTorch conjugates and negates lazily: conj() gives a view with a bit that says what to do when it is read. torch.save
# keeps the bits. safetensors writes the memory as it lies, so a model's weight loads as its conjugate, without an error.
# Its numpy interface also ignores the order of an array in memory, where the one for torch refuses what is not contiguous.
#
# Seen with safetensors 0.8.0, torch 2.13.0 (CPU) and numpy 2.4.6; loaded after being saved:
#   1+2i conjugated (1-2i)       1+2i    torch.save 1-2i
#   its imaginary part (-2)      2       torch.save -2
#   numpy 0 1 / 2 3 transposed   0 1 2 3, right: 0 2 1 3
#   torch, the same              ValueError
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6 safetensors==0.8.0 2>/dev/null
cat >"$folder/case.py" <<'PYTHON'
import io

import numpy
import safetensors.numpy
import safetensors.torch
import torch


def by_torch(tensor):
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return torch.load(file)


conjugate = torch.tensor([1 + 2j]).conj()
for tensor in conjugate, torch._neg_view(torch.tensor([2.0])):
    loaded = safetensors.torch.load(safetensors.torch.save({"name": tensor}))["name"]
    print(tensor.item(), loaded.item(), by_torch(tensor).item())
array = numpy.arange(4.0).reshape(2, 2)
print(*safetensors.numpy.load(safetensors.numpy.save({"name": array.T}))["name"].ravel().astype(int))
try:
    safetensors.torch.save({"name": torch.from_numpy(array).T})
    print("taken")
except ValueError:
    print("refused")
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = '(1-2j) (1+2j) (1-2j)
-2.0 2.0 -2.0
0 1 2 3
refused' ] || { echo 'changed'; exit 1; }
echo 'as seen'
