#!/usr/bin/env bash
# BitRound of numcodecs, a codec of Zarr, turns the NaN of a GPU into minus zero, and other NaNs into infinity.
#
# BitRound keeps some bits of the mantissa: it adds half of the last bit that it keeps, as an integer, and cuts the rest
# off. In a NaN whose mantissa is all ones the carry runs through the exponent into the sign. CUDA's NaN is just that,
# 0x7fffffff, so that missing values from a GPU are zeros in the archive; with the sign set it is plus zero. A NaN whose only
# bits are low ones becomes infinity, and so does the largest finite number. numpy's own NaN, 0x7fc00000, stays. The
# codec's description says nothing of NaN.
#
# Seen with numcodecs 0.16.5 and numpy 2.4.6, BitRound(10) of these float32, encoded and decoded:
#   0x7fffffff   -0
#   0xffffffff   0
#   0x7f800001   inf
#   0x7fc00000   nan
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check numcodecs==0.16.5 numpy==2.4.6 2>/dev/null
cat >"$folder/case.py" <<'PYTHON'
import numcodecs
import numpy

values = numpy.array([0x7fffffff, 0xffffffff, 0x7f800001, 0x7fc00000], "u4").view("f4")
assert numpy.isnan(values).all()
codec = numcodecs.BitRound(10)
print(*(f"{value:g}" for value in codec.decode(codec.encode(values.copy()))))
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py")
echo "$seen"
[ "$seen" = '-0 0 inf nan' ] || { echo 'changed: expected -0 0 inf nan'; exit 1; }
echo 'as seen'
