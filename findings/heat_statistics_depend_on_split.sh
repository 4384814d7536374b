#!/usr/bin/env bash
# Variances, means, and places of a maximum that Heat computes depend on how the array is split among the ranks.
#
# Heat documents the divisor N - ddof of var and std along an axis, and ddof is 0 by default. An array that is split
# along the other axis is divided by N - 1 all the same. So is the variance, but not the deviation, of an array that is
# not split. Along the axis of the split it is N, and with ddof=1 the result is nan once a rank holds a single element.
# The mean of all elements leaves out the whole share of a rank that has a NaN, although it divides by the number of all
# elements, so that the mean of nothing but NaN is 0. argmax, an index into the flattened array, counts within the
# rank's own share, and is right only where all ranks have as many rows.
#
# Seen with heat 1.8.0, torch 2.11.0 and mpich 5.0.2, two ranks: var and std of the row 0 2 of two equal rows, the means
# of 1 2 3 nan and of four times NaN, and argmax of zeros with a 1 as the last of 2 by 2:
#                    not split   split=0   split=1   numpy
#   var              2           2         1         1
#   std              1           1.414     1         1
#   var, ddof=1      2           2         nan       2
#   mean             nan         0.75                nan
#   mean             nan         0                   nan
#   argmax           3           3         1         3
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  heat==1.8.0 torch==2.11.0 mpich==5.0.2 mpi4py==4.1.2 numpy==2.4.6 2>/dev/null
unset MPI4PY_LIBMPI MPI4PY_MPIABI
cat >"$folder/case.py" <<'PYTHON'
import heat
import numpy

nan = numpy.nan
rows = numpy.array([[0, 2], [0, 2]], "f4")
last = numpy.array([[0, 0], [0, 1]], "f4")
for split in None, 0, 1:
    spread = heat.array(rows, split=split)
    results = [heat.var(spread, axis=1)[0], heat.std(spread, axis=1)[0], heat.var(spread, axis=1, ddof=1)[0]]
    if split != 1:
        for values in [1, 2, 3, nan], [nan] * 4:
            results.append(heat.mean(heat.array(numpy.array(values, "f4"), split=split)))
    results.append(heat.argmax(heat.array(last, split=split)))
    values = [result.item() for result in results]
    if heat.communication.MPI_WORLD.rank == 0:
        print(split, "-", *(f"{value:.4g}" for value in values), flush=True)
PYTHON
seen=$("$folder/venv/bin/mpiexec" -n 2 "$folder/venv/bin/python" "$folder/case.py" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = 'None - 2 1 2 nan nan 3
0 - 2 1.414 2 0.75 0 3
1 - 1 1 nan 1' ] || { echo 'changed'; exit 1; }
echo 'as seen'
