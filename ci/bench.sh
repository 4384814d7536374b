#!/usr/bin/env bash
# make bench: the micro-benchmarks, then MPI over each transport. Figures are medians of
# interleaved runs; compare only what stands in one table.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
export PATH="$PWD/.venv/bin:$PATH"
bench/run_all.sh "$build"
echo
echo "== MPI over each transport"
mpicc -O2 examples/pingpong.c -o "$build/bin/pingpong"
.venv/bin/python bench/mpi_transports.py --penstock "$build/bin/penstock" \
  --mpiexec "$PWD/.venv/bin/mpiexec" --pingpong "$build/bin/pingpong" --rounds "${ROUNDS:-11}" \
  --json "$build/bench/mpi_transports.json"
