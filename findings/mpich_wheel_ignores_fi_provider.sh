#!/usr/bin/env bash
# MPICH's wheel takes UCX, not libfabric, so that FI_PROVIDER has no effect.
#
# PyPI's mpich carries two network modules, ch4:ucx and ch4:ofi, and takes UCX unless MPIR_CVAR_CH4_NETMOD=ofi is set.
# Without it a provider that does not exist is accepted in silence; with it MPI_Init refuses the same provider. The
# largest tag differs between the two modules as well.
#
# Seen on x86_64 with mpich 5.0.2 and mpi4py 4.1.2:
#   as installed                  starts, MPI_TAG_UB 536870911
#   FI_PROVIDER of no provider    starts, MPI_TAG_UB 536870911
#   the same, netmod ofi          MPI_Init fails: "OFI call getinfo failed"
#   netmod ofi                    starts, MPI_TAG_UB 1073741823
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check mpich==5.0.2 mpi4py==4.1.2 2>/dev/null
unset FI_PROVIDER MPIR_CVAR_CH4_NETMOD MPI4PY_LIBMPI MPI4PY_MPIABI

largest_tag() {
  env "$@" "$folder/venv/bin/mpiexec" -n 1 "$folder/venv/bin/python" -c \
    'from mpi4py import MPI; print(MPI.COMM_WORLD.Get_attr(MPI.TAG_UB))' 2>&1 || true
}
expect() {
  echo "$1: $3"
  case $3 in *"$2"*) ;; *) echo "changed: expected $2"; exit 1 ;; esac
}
expect 'as installed' 536870911 "$(largest_tag)"
expect 'FI_PROVIDER=absent' 536870911 "$(largest_tag FI_PROVIDER=absent)"
expect 'FI_PROVIDER=absent, netmod ofi' 'OFI call getinfo failed' \
  "$(largest_tag FI_PROVIDER=absent MPIR_CVAR_CH4_NETMOD=ofi | grep -m1 getinfo)"
expect 'netmod ofi' 1073741823 "$(largest_tag MPIR_CVAR_CH4_NETMOD=ofi)"
echo 'as seen'
