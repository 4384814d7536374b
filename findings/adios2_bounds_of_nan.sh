#!/usr/bin/env bash
# The minimum and maximum that ADIOS2 stores for an array with a NaN do not enclose its other numbers.
#
# ADIOS2 writes the bounds of each block beside the data, so that listings and queries need not read it. A NaN does not make
# them NaN, nor is it left out by itself: at the end it makes the maximum as small as the minimum, elsewhere it takes the
# number beside it along, or does no harm. A reader that goes by the bounds to find values above a threshold passes over a
# block that has some.
#
# Seen with adios2 2.12.1.1001 and numpy 2.4.6, the bounds as available_variables gives them:
#   5 1 3 nan   1 1
#   nan 1 2     2 2
#   5 nan 1 3   1 3
#   1 nan 2     1 2
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check adios2==2.12.1.1001 numpy==2.4.6 2>/dev/null
cat >"$folder/case.py" <<'PYTHON'
import sys
import adios2
import numpy

nan = numpy.nan
for values in [5, 1, 3, nan], [nan, 1, 2], [5, nan, 1, 3], [1, nan, 2]:
    data = numpy.array(values, "f8")
    with adios2.Stream(sys.argv[1], "w") as stream:
        stream.write("values", data, data.shape, [0], data.shape)
    with adios2.FileReader(sys.argv[1]) as reader:
        stored = reader.available_variables()["values"]
        assert numpy.array_equal(reader.read("values"), data, equal_nan=True)
    print(*(f"{value:g}" for value in data), "/", f"{float(stored['Min']):g} {float(stored['Max']):g}")
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder/data.bp" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = '5 1 3 nan / 1 1
nan 1 2 / 2 2
5 nan 1 3 / 1 3
1 nan 2 / 1 2' ] || { echo 'changed'; exit 1; }
echo 'as seen'
