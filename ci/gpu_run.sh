#!/usr/bin/env bash
# One run on a machine with a GPU, in under ten minutes: ci/gpu_run.sh [OUT] (docs/gpu-runs.md). Takes what was built before:
# build/gpu (ci/gpu.sh --bundle) and, to compare with, build/gpu-before (ci/gpu.sh --bundle-of COMMIT). OUT: build/gpu-run, or the
# variable of that name. Without a GPU: the same on the stand-in for NVIDIA's driver, in short form.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
[ -x "$build/gpu/bin/penstock" ] || ci/gpu.sh --bundle
ulimit -c unlimited 2> /dev/null || true
exec python3 lab/bench/gpu_run.py --bundle "$build/gpu" --before "$build/gpu-before" --out "${1:-${OUT:-$build/gpu-run}}" "${@:2}"
