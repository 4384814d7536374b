#!/bin/sh
# Runs every benchmark with its baselines, prints the tables and leaves JSON in BUILD/bench.
# usage: bench/run_all.sh [BUILD]      (default: build; options for the benchmarks in BENCH_ARGS)
set -u
here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
build=${1:-${BUILD:-$root/build}}
case $build in /*) ;; *) build=$root/$build ;; esac
out=$build/bench
mkdir -p "$out"
status=0

run() {
  name=$1
  shift
  if [ ! -x "$build/bin/$name" ]; then
    echo "$name: not built, left out" >&2
    return
  fi
  # shellcheck disable=SC2086 # BENCH_ARGS is a list
  timeout 120 "$build/bin/$name" --json "$out/$name.json" "$@" ${BENCH_ARGS:-} || {
    echo "$name failed (status $?)" >&2
    status=1
  }
}

run ring_bench --mode software,hardware
run poll_bench --mode software
run fi_bench --mode software,hardware
run rma_bench --mode software,hardware

echo
echo "results: $out"
exit $status
