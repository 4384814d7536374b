#!/usr/bin/env bash
# torch.from_dlpack makes a writable tensor of a read-only array, and so changes an array of JAX, which cannot change.
#
# DLPack marks memory as read-only since its version 1, and both JAX and numpy set the mark. numpy.from_dlpack of a JAX
# array gives a read-only array. PyTorch has no read-only tensors and ignores the mark without a warning, where
# torch.from_numpy and torch.frombuffer warn of the same. An in-place operation, which a receive or an all_reduce into the
# tensor is too, then changes the JAX array under programs that were compiled on the promise that it does not.
#
# Seen with torch 2.13.0 (CPU), jax 0.7.2 and numpy 2.4.6, the array 0 1 2 after adding 10 to the tensor:
#   JAX array               10 11 12
#   read-only numpy array   10 11 12
#   warnings                0         1 with torch.from_numpy
#   numpy.from_dlpack of the JAX array: read-only
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6 jax==0.7.2 jaxlib==0.7.2 2>/dev/null
cat >"$folder/case.py" <<'PYTHON'
import warnings

import jax.numpy
import numpy
import torch

warnings.simplefilter("always")
array, fixed = jax.numpy.arange(3.0), numpy.arange(3.0)
fixed.flags.writeable = False
print("writable for numpy:", numpy.from_dlpack(array).flags.writeable)
for name, source in ("jax", array), ("numpy", fixed):
    with warnings.catch_warnings(record=True) as said:
        tensor = torch.from_dlpack(source)
        tensor += 10
    print(name, *(int(value) for value in source), "warnings:", len(said))
with warnings.catch_warnings(record=True) as said:
    torch.from_numpy(fixed)
print("from_numpy, warnings:", len(said))
PYTHON
seen=$(JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/case.py" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = 'writable for numpy: False
jax 10 11 12 warnings: 0
numpy 10 11 12 warnings: 0
from_numpy, warnings: 1' ] || { echo 'changed'; exit 1; }
echo 'as seen'
