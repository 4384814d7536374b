#!/usr/bin/env bash
# make bench: the micro-benchmarks, then MPI programs over each transport. Figures are medians of
# interleaved runs; compare only what stands in one table.
set -euo pipefail
cd "$(dirname "$0")/.."
export BUILD=${BUILD:-build}
bench/run_all.sh "$BUILD"

mpi() {
  local title=$1 name=$2
  shift 2
  echo
  echo "== $title"
  .venv/bin/python "bench/$1.py" "${@:2}" --json "$BUILD/bench/$name.json"
}

mpi "MPI over each transport" mpi_transports mpi_transports --rounds "${ROUNDS:-11}"
for test in latency bandwidth bibw; do
  mpi "$test between buffers in host memory and in memory from MPI_Alloc_mem" "placements_$test" \
    placements "$test" --rounds "${ROUNDS:-7}"
done
for test in latency bandwidth; do
  mpi "$test of one-sided operations" "one_sided_$test" one_sided "$test" --rounds "${ROUNDS:-5}"
done
mpi "collectives" collectives collectives --rounds "${ROUNDS:-5}"
mpi "halo exchange by windows, examples/halo.c" halo halo --rounds "${ROUNDS:-5}"
if [ -x .venv-torch/bin/python ] && [ -d "$BUILD/python/penstock/torch" ]; then
  mpi "collectives and training of PyTorch" torch_collectives torch_collectives --rounds "${ROUNDS:-5}"
else
  echo "PyTorch's back end is not built, its collectives are left out: make torch" >&2
fi
