#!/usr/bin/env bash
# What Penstock does on a GPU, in under 9 minutes: ci/gpu.sh [OUT]. Takes what was built before, in
# build/gpu (under 64 MiB: ci/gpu.sh --bundle makes it, and needs no GPU); results go to OUT as
# gpu.json, gpu.md and plots. Without a GPU: the same on the stand-in for NVIDIA's driver, in short form.
# NCCL_TESTS=FOLDER: sources of NVIDIA's nccl-tests, for the bundle. PENSTOCK_TORCH_PYTHON: a Python that has torch.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
most_kib=$((64 * 1024))

bundle() {
  [ -f "$build/build.ninja" ] || cmake -G Ninja -S . -B "$build" -DCMAKE_BUILD_TYPE=Release
  cmake --build "$build" --target penstock_shared penstock_nccl penstock_ncclnet penstock_standin_cuda gpu_test > "$build/gpu-build.log" ||
    { tail -20 "$build/gpu-build.log"; exit 1; }
  rm -rf "$build/gpu"
  mkdir -p "$build/gpu/bin" "$build/gpu/lib/penstock/nccl" "$build/gpu/standin"
  cp -L "$build"/lib/libpenstock.so.0 "$build"/lib/libnccl-net-penstock.so "$build/gpu/lib/"
  cp -L "$build"/lib/penstock/nccl/libnccl.so.2 "$build/gpu/lib/penstock/nccl/"
  cp -L "$build"/standin/libcuda.so.1 "$build/gpu/standin/"
  cp "$build"/bin/gpu_test "$build/gpu/bin/"
  programs "$build/gpu/bin" "$build/gpu/lib"
  strip "$build"/gpu/bin/* "$build"/gpu/lib/*.so* "$build"/gpu/lib/penstock/nccl/* "$build"/gpu/standin/*
  ci/nccl_tests.sh "$build/gpu" || [ $? = 77 ]
  local kib
  kib=$(du -sk "$build/gpu" | cut -f1)
  echo "$build/gpu: $kib KiB"
  [ "$kib" -lt "$most_kib" ] || { echo "ci/gpu.sh: error: more than $most_kib KiB: leave nccl-tests out (NCCL_TESTS=none)" >&2; exit 1; }
}

# OUT LIBRARIES: what measures and tests, in C
programs() {
  for program in lab/bench/nccl_perf.c lab/bench/gpu_limits.c tests/e2e/programs/nccl_calls.c; do
    cc -std=c11 -O2 -Itests/e2e "$program" -o "$1/$(basename "$program" .c)" -L"$2/penstock/nccl" -Wl,--as-needed -l:libnccl.so.2 -pthread \
      -Wl,-rpath-link,"$2" -ldl
  done
}

case ${1:-} in
  --bundle) bundle; exit ;;
  --programs) programs "$2" "$3"; exit ;;
esac
# Where nothing was built before, and it can be.
[ -x "$build/gpu/bin/gpu_test" ] || bundle
exec python3 lab/bench/gpu.py --bundle "$build/gpu" --out "${1:-$build/gpu-results}"
