#!/usr/bin/env bash
# What Penstock does on a GPU, in under 9 minutes: ci/gpu.sh [OUT]. Takes what was built before, in
# build/gpu (under 64 MiB: ci/gpu.sh --bundle makes it, and needs no GPU); results go to OUT as
# gpu.json and gpu.md. Without a GPU: the same on the stand-in for NVIDIA's driver, in short form.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}

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
  for program in bench/nccl_perf.c tests/e2e/programs/nccl_calls.c; do
    cc -std=c11 -O2 -Itests/e2e "$program" -o "$build/gpu/bin/$(basename "$program" .c)" -L"$build/gpu/lib/penstock/nccl" -l:libnccl.so.2 \
      -Wl,-rpath-link,"$build/gpu/lib" -ldl
  done
  strip "$build"/gpu/bin/* "$build"/gpu/lib/*.so* "$build"/gpu/lib/penstock/nccl/* "$build"/gpu/standin/*
  du -sh "$build/gpu"
}

if [ "${1:-}" = --bundle ]; then
  bundle
  exit
fi
# Where nothing was built before, and it can be.
[ -x "$build/gpu/bin/gpu_test" ] || bundle
exec python3 bench/gpu.py --bundle "$build/gpu" --out "${1:-$build/gpu-results}"
