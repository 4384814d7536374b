#!/usr/bin/env bash
# make demo: an unmodified mpi4py program on 4 ranks over 2 emulated hosts, then how fast it is.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
penstock=$build/bin/penstock
python=$PWD/.venv/bin/python
export PATH="$PWD/.venv/bin:$PATH"

echo "== a heat equation in mpi4py, 4 ranks on 2 emulated hosts, through a pool with software coherence"
echo "   penstock run -n 4 --nodes 2 --stats -- python examples/heat.py"
"$penstock" run -n 4 --nodes 2 --stats -- "$python" examples/heat.py 2>&1

echo
echo "== messages of two ranks over TCP, MPICH's shared memory and the pool, measured in turn (make bench measures the rest)"
PENSTOCK_PYTHON=$python "$penstock" bench run pt2pt --procs 2 --sizes 8,4K,64K,1M --repeat "${ROUNDS:-3}" \
  --metric latency_us --series "TCP,MPICH's own,Penstock"
