#!/usr/bin/env bash
# Heat sorts a split vector only within each rank, and takes the elements that a list of indices names in another order.
#
# The axis of sort defaults to -1, the last one. Heat checks it and goes on with -1, which is not the number of the
# split axis, and so sorts without communication; its indices count within the rank. With axis=0 the result is right. A
# list of indices, a numpy array or one of Heat's gives the elements in the order of the ranks that hold them, not in
# that of the list, and labels that the same list picks from an array without a split then belong to other rows. From a
# matrix that is split by columns, m[m > 5] takes the first rank's columns first.
#
# Seen with heat 1.8.0, torch 2.11.0 and mpich 5.0.2, two ranks, v = 5 1 4 2 3, x = 10 20 30 40 and m = 1 8 / 9 2 / 7 6:
#                      not split    split
#   sort(v)            1 2 3 4 5    1 4 5 2 3
#   sort(v, axis=0)    1 2 3 4 5    1 2 3 4 5
#   x[[3, 0, 1]]       40 10 20     10 20 40
#   m[m > 5]           8 9 7 6      9 7 8 6
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

for split in False, True:
    rows, columns = (0, 1) if split else (None, None)
    vector = heat.array([5, 1, 4, 2, 3], split=rows)
    matrix = heat.array([[1, 8], [9, 2], [7, 6]], split=columns)
    results = (
        heat.sort(vector)[0],
        heat.sort(vector, axis=0)[0],
        heat.array([10, 20, 30, 40], split=rows)[[3, 0, 1]],
        matrix[matrix > 5],
    )
    values = [result.numpy().tolist() for result in results]
    if heat.communication.MPI_WORLD.rank == 0:
        print(*values, flush=True)
PYTHON
seen=$("$folder/venv/bin/mpiexec" -n 2 "$folder/venv/bin/python" "$folder/case.py" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = '[1, 2, 3, 4, 5] [1, 2, 3, 4, 5] [40, 10, 20] [8, 9, 7, 6]
[1, 4, 5, 2, 3] [1, 2, 3, 4, 5] [10, 20, 40] [9, 7, 8, 6]' ] || { echo 'changed'; exit 1; }
echo 'as seen'
