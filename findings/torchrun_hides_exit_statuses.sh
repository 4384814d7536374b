#!/usr/bin/env bash
# torchrun ends with status 1 whatever status its ranks have ended with, and whatever signal has ended them.
#
# Batch systems and scripts tell failures apart by the status: 75 (try again), 137 (killed for memory), a status of the
# program's own. mpiexec passes a rank's status on. torchrun writes it into its report on standard error and
# ends with 1 itself; a rank's status 0 alone passes.
#
# Seen with torch 2.13.0 (CPU), two ranks, of which rank 1 ends like this, and mpiexec of mpich 5.0.2 beside it:
#   exits with 75       torchrun 1   mpiexec 75
#   killed by SIGTERM   torchrun 1   mpiexec 15
#   exits with 0        torchrun 0   mpiexec 0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6 mpich==5.0.2 2>/dev/null
cat >"$folder/case.py" <<'PYTHON'
import os
import signal
import sys

rank = int(os.environ.get("RANK", os.environ.get("PMI_RANK", "0")))
if rank == 1 and sys.argv[1] == "SIGTERM":
    os.kill(os.getpid(), signal.SIGTERM)
sys.exit(int(sys.argv[1]) if rank == 1 else 0)
PYTHON
seen=$(for how in 75 SIGTERM 0; do
  status=0
  "$folder/venv/bin/torchrun" --standalone --nproc-per-node 2 "$folder/case.py" $how >/dev/null 2>&1 || status=$?
  other=0
  "$folder/venv/bin/mpiexec" -n 2 "$folder/venv/bin/python" "$folder/case.py" $how >/dev/null 2>&1 || other=$?
  echo "$how: torchrun $status mpiexec $other"
done)
echo "$seen"
[ "$seen" = '75: torchrun 1 mpiexec 75
SIGTERM: torchrun 1 mpiexec 15
0: torchrun 0 mpiexec 0' ] || { echo 'changed'; exit 1; }
echo 'as seen'
