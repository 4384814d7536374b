#!/bin/sh
# A part of mpi4py's own suite: a little of it in simulated mode, more in software mode; a minute or two. For ctest: register with
# SKIP_RETURN_CODE 77, as it needs the suite's source, fetched once into .cache/ (or MPI4PY_SOURCE).
# usage: conformance_short.sh [PENSTOCK]      (default: build/bin/penstock)
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$(dirname "$here")")
penstock=${1:-$root/build/bin/penstock}
if [ ! -x "$penstock" ]; then
  echo "SKIP: $penstock is absent: make build" >&2
  exit 77
fi
python=$root/.venv/bin/python
if [ ! -x "$python" ]; then
  python=$(command -v python3)
fi
if ! "$python" -c 'import mpi4py' 2>/dev/null; then
  echo "SKIP: $python has no mpi4py: ci/install.sh run" >&2
  exit 77
fi
# On a pool without coherence a line costs more: a smaller part, on 2 and 3 nodes.
"$python" "$here/mpi4py_suite.py" --penstock "$penstock" --python "$python" --ranks 2 3 \
  --mode simulated -i 'test_p2p_buf\.' --size 256M --stall 120 --deadline 300 \
  ${MPI4PY_SOURCE:+--source "$MPI4PY_SOURCE"} || exit
exec "$python" "$here/mpi4py_suite.py" --penstock "$penstock" --python "$python" --ranks 2 \
  --mode software -i 'test_p2p_' -i 'test_cco_buf\.' -i 'test_cco_nb_buf\.' -i 'test_cco_pr_buf\.' -i 'test_rma\.' --stall 120 \
  --deadline 600 ${MPI4PY_SOURCE:+--source "$MPI4PY_SOURCE"}
