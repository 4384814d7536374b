#!/usr/bin/env bash
# Intel MPI takes MPI_LAND and MPI_LOR of reals, computes nothing, and returns success.
#
# The standard allows these operations for integers and logicals. MPICH, from which Intel MPI is made, and Open MPI refuse
# reals with MPI_ERR_OP. Intel MPI leaves the result as one of the operands was: the "and" of 2.5 and 0 can be 2.5.
# MPI_LXOR of the same reals it does compute.
#
# Seen with impi-rt 2021.18.1, mpich 5.0.2 and mpi4py 4.1.2, MPI_Reduce_local of 2.5, 0, 0 into 0.5, 4, 0:
#   Intel MPI   LAND 0.5 4 0    LOR 0.5 4 0    LXOR 0 1 0       right: 1 0 0, 1 1 0, 0 1 0
#   MPICH       MPI_ERR_OP of all three
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
for mpi in mpich==5.0.2 impi-rt==2021.18.1; do
  python3 -m venv "$folder/${mpi%%=*}"
  "$folder/${mpi%%=*}/bin/pip" install --quiet --disable-pip-version-check "$mpi" mpi4py==4.1.2 numpy==2.4.6 2>/dev/null
done
unset MPI4PY_LIBMPI MPI4PY_MPIABI
cat >"$folder/case.py" <<'PYTHON'
import numpy
from mpi4py import MPI

MPI.COMM_SELF.Set_errhandler(MPI.ERRORS_RETURN)
for name in ("LAND", "LOR", "LXOR"):
    one, other = numpy.array([2.5, 0.0, 0.0]), numpy.array([0.5, 4.0, 0.0])
    try:
        getattr(MPI, name).Reduce_local(one, other)
        result = " ".join(f"{value:g}" for value in other)
    except MPI.Exception as error:
        result = "MPI_ERR_OP" if error.Get_error_class() == MPI.ERR_OP else str(error)
    print(f"{name} {result};", end=" ")
PYTHON

check() {
  local seen
  seen=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/bin/python" "$folder/case.py" 2>/dev/null)
  echo "$1: $seen"
  [ "$seen" = "$2" ] || { echo "changed: expected $2"; exit 1; }
}
check impi-rt 'LAND 0.5 4 0; LOR 0.5 4 0; LXOR 0 1 0; '
check mpich 'LAND MPI_ERR_OP; LOR MPI_ERR_OP; LXOR MPI_ERR_OP; '
echo 'as seen'
