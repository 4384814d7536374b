#!/usr/bin/env bash
# mpi4py sends a transposed numpy array or torch tensor in the order of its memory: the receiver gets it untransposed.
#
# A strided slice is refused ("buffer is not contiguous"). A transposed array, or one that came from a Fortran routine, is
# contiguous too, but in the order of columns, and mpi4py takes it. Nobody else keeps the order: a receive into an ordinary
# array gives the transposed values, and Allreduce adds elements that do not belong together if the order of the array is
# not the same on all ranks. The methods that pickle (send, allreduce) give the right values.
#
# Seen with mpi4py 4.1.2, mpich 5.0.2 and numpy 2.4.6, two ranks that have 0 2 / 1 3 (rank 0 as a transposed array):
#   Bcast from rank 0      0 1 / 2 3
#   bcast from rank 0      0 2 / 1 3
#   Allreduce to rank 1    0 3 / 3 6    right: 0 4 / 2 6
#   a column               BufferError or ValueError
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check mpich==5.0.2 mpi4py==4.1.2 numpy==2.4.6 2>/dev/null
unset MPI4PY_LIBMPI MPI4PY_MPIABI
cat >"$folder/case.py" <<'PYTHON'
import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
own = numpy.arange(4.0).reshape(2, 2).T
if world.rank == 1:
    own = numpy.array(own, order="C")
received = own if world.rank == 0 else numpy.zeros((2, 2))
world.Bcast(received)
pickled = world.bcast(own)
summed = numpy.zeros((2, 2))
world.Allreduce(own, summed)
try:
    world.Allreduce(numpy.ones((2, 2))[:, 0], numpy.zeros(2))
    refused = False
except (BufferError, ValueError):
    refused = True
if world.rank == 1:
    for array in received, pickled, summed:
        print(*(f"{value:g}" for value in array.ravel()), end=" / ")
    print(refused)
PYTHON
seen=$("$folder/venv/bin/mpiexec" -n 2 "$folder/venv/bin/python" "$folder/case.py" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = '0 1 2 3 / 0 2 1 3 / 0 3 3 6 / True' ] || { echo 'changed'; exit 1; }
echo 'as seen'
