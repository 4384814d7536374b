#!/usr/bin/env bash
# PyTorch turns infinity into 448 when it casts to float8_e4m3fn, and ml_dtypes, the types of JAX, turn it into NaN.
#
# e4m3fn has no infinity; its largest number is 448. PyTorch clamps whatever is larger, infinity included, so that an
# overflow in a gradient becomes an ordinary number and no check for inf or NaN finds it after the cast. Its own float8_e5m2
# keeps infinity and turns large numbers into it, and its float8_e4m3fnuz gives NaN. ml_dtypes gives NaN for e4m3fn.
# So the same cast before a message hides an error on one side and shows it on the other.
#
# Seen with torch 2.13.0 (CPU) and ml_dtypes 0.6.0, casts of float32:
#                           448   1000   inf
#   torch e4m3fn            448   448    448
#   torch e4m3fnuz          nan   nan    nan     (its largest number is 240)
#   torch e5m2, of 1e9      448   inf    inf
#   ml_dtypes e4m3fn        448   nan    nan
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6 ml_dtypes==0.6.0 2>/dev/null
seen=$("$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
import ml_dtypes
import numpy
import torch

infinity = float("inf")
for name, values in (
    ("float8_e4m3fn", [448, 1000, infinity]),
    ("float8_e4m3fnuz", [448, 1000, infinity]),
    ("float8_e5m2", [448, 1e9, infinity]),
):
    cast = torch.tensor(values, dtype=torch.float32).to(getattr(torch, name))
    print("torch", name, *(f"{value:g}" for value in cast.float().tolist()))
cast = numpy.array([448, 1000, infinity], "f4").astype(ml_dtypes.float8_e4m3fn)
print("ml_dtypes float8_e4m3fn", *(f"{value:g}" for value in cast.astype("f4")))
PYTHON
)
echo "$seen"
[ "$seen" = 'torch float8_e4m3fn 448 448 448
torch float8_e4m3fnuz nan nan nan
torch float8_e5m2 448 inf inf
ml_dtypes float8_e4m3fn 448 nan nan' ] || { echo 'changed'; exit 1; }
echo 'as seen'
