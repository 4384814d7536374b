#!/usr/bin/env bash
# HDF5's scale-offset filter turns a NaN into the smallest number of its chunk, and a chunk that begins with one cannot be
# read any more.
#
# The filter stores decimal digits above the chunk's minimum. It looks for the minimum and the maximum by comparison, which a
# NaN never passes, and then casts what is no number to an integer. So a missing value comes back as a plausible one. If
# the NaN is the first element, it becomes minimum and maximum itself: writing succeeds, and every read of the chunk
# fails, the other numbers in it included. The filter is described as lossy, by the number of digits that is kept.
#
# Seen on x86_64 with h5py 3.16.0 (HDF5 2.0.0) and numpy 2.4.6, two decimal digits, one chunk:
#   1.25 2.5 nan 4.75   1.25 2.5 1.25 4.75
#   1.25 2.5 inf 4.75   1.25 2.5 inf 4.75
#   nan 1.25 2.5 4.75   OSError: filter returned failure during read
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check h5py==3.16.0 numpy==2.4.6 2>/dev/null
cat >"$folder/case.py" <<'PYTHON'
import sys
import h5py
import numpy

nan, inf = numpy.nan, numpy.inf
for values in [1.25, 2.5, nan, 4.75], [1.25, 2.5, inf, 4.75], [nan, 1.25, 2.5, 4.75]:
    with h5py.File(sys.argv[1], "w") as file:
        file.create_dataset("values", data=numpy.array(values, "f4"), chunks=(4,), scaleoffset=2)
    with h5py.File(sys.argv[1]) as file:
        try:
            print(*(f"{value:g}" for value in file["values"][:]))
        except OSError as error:
            print("OSError:", str(error).split("(")[-1].rstrip(")"))
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder/data.h5")
echo "$seen"
[ "$seen" = '1.25 2.5 1.25 4.75
1.25 2.5 inf 4.75
OSError: filter returned failure during read' ] || { echo 'changed'; exit 1; }
echo 'as seen'
