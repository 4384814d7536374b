#!/usr/bin/env bash
# numpy does not sort an array of bfloat16 that has a NaN: the numbers on both sides of it stay apart.
#
# numpy puts NaN last when it sorts its own types, float16 included. For the types of ml_dtypes, bfloat16 and float8, it
# uses a comparison in which a NaN is neither smaller nor larger than anything, so that nothing moves past it. Functions
# that rely on sorted values are then wrong as well, without a warning: the median is an ordinary number where it should be
# NaN, unique returns duplicates, and searchsorted finds other places. One NaN in the losses of a hundred ranks is enough.
#
# Seen with ml_dtypes 0.6.0 and numpy 2.4.6:
#                            float16        bfloat16
#   sort of 3 4 nan 1 2      1 2 3 4 nan    3 4 nan 1 2
#   median of nan 1 2        nan            1
#   unique of 1 nan 1        1 nan          1 nan 1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check ml_dtypes==0.6.0 numpy==2.4.6 2>/dev/null
cat >"$folder/case.py" <<'PYTHON'
import ml_dtypes
import numpy

nan = numpy.nan
for kind in numpy.float16, ml_dtypes.bfloat16:
    sorted_values = numpy.sort(numpy.array([3, 4, nan, 1, 2], kind))
    median = numpy.median(numpy.array([nan, 1, 2], kind))
    unique = numpy.unique(numpy.array([1, nan, 1], kind))
    results = sorted_values, numpy.array([median]), unique
    print(*(" ".join(f"{float(value):g}" for value in result) for result in results), sep=" / ")
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" 2>/dev/null)
echo "$seen"
[ "$seen" = '1 2 3 4 nan / nan / 1 nan
3 4 nan 1 2 / 1 / 1 nan 1' ] || { echo 'changed'; exit 1; }
echo 'as seen'
