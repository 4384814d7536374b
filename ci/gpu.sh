#!/usr/bin/env bash
# What Penstock does on a GPU, in under 9 minutes: ci/gpu.sh [OUT]. Takes what was built before, in
# build/gpu (ci/gpu.sh --bundle makes it, and needs no GPU); results go to OUT as gpu.json, gpu.md and
# plots. ci/gpu.sh --bundle-of COMMIT: the same of another commit, in build/gpu-before (docs/gpu-runs.md).
# Without a GPU: the same on the stand-in for NVIDIA's driver, in short form.
# NCCL_TESTS=FOLDER: sources of NVIDIA's nccl-tests, for the bundle. PENSTOCK_TORCH_PYTHON: a Python that has torch.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${BUILD:-build}
most_kib=$((64 * 1024))

# SOURCE BUILD OUT: what a run needs, built from SOURCE; its programs come from this checkout
bundle() {
  local source=$1 built=$2 out=$3
  [ -f "$built/build.ninja" ] || cmake -G Ninja -S "$source" -B "$built" -DCMAKE_BUILD_TYPE=Release > "$built.log"
  cmake --build "$built" --target penstock penstock_shared penstock_nccl penstock_ncclnet penstock_standin_cuda gpu_test > "$built/gpu-build.log" ||
    { tail -20 "$built/gpu-build.log"; exit 1; }
  rm -rf "$out"
  mkdir -p "$out/bin" "$out/lib/penstock/nccl" "$out/standin"
  cp -L "$built"/lib/libpenstock.so.0 "$built"/lib/libnccl-net-penstock.so "$out/lib/"
  cp -L "$built"/lib/penstock/nccl/libnccl.so.2 "$out/lib/penstock/nccl/"
  cp -L "$built"/standin/libcuda.so.1 "$out/standin/"
  cp "$built"/bin/gpu_test "$built"/bin/penstock "$out/bin/"
  programs "$out/bin" "$out/lib"
  # Names of functions stay, for stacks.
  strip --strip-debug "$out"/bin/* "$out"/lib/*.so* "$out"/lib/penstock/nccl/* "$out"/standin/*
}

# Both bundles and the sources travel together.
check_size() {
  local kib
  kib=$(du -skc "$build"/gpu "$build"/gpu-before 2> /dev/null | tail -1 | cut -f1) || true
  kib=$((kib + $(git ls-files -z | du -skc --files0-from=- 2> /dev/null | tail -1 | cut -f1)))
  echo "bundles and sources: $kib KiB"
  [ "$kib" -lt "$most_kib" ] || { echo "ci/gpu.sh: error: more than $most_kib KiB: leave nccl-tests out (NCCL_TESTS=none)" >&2; exit 1; }
}

bundle_here() {
  mkdir -p "$build"
  bundle . "$build" "$build/gpu"
  ci/nccl_tests.sh "$build/gpu" || [ $? = 77 ]
  check_size
}

# COMMIT: its build lies in its source as ours does, so that ccache finds what both have alike.
bundle_of() {
  local source=$build/gpu-before.source commit
  commit=$(git rev-parse --verify --quiet "$1^{commit}") || { echo "ci/gpu.sh: error: no commit $1" >&2; exit 1; }
  rm -rf "$source"
  mkdir -p "$source/build"
  git archive "$commit" | tar -x -C "$source"
  bundle "$source" "$source/build" "$build/gpu-before"
  echo "$commit" > "$build/gpu-before/commit"
  rm -rf "$source"
  check_size
}

# OUT LIBRARIES: what measures and tests, in C
programs() {
  for program in lab/bench/nccl_perf.c lab/bench/gpu_limits.c tests/e2e/programs/nccl_calls.c; do
    cc -std=c11 -O2 -Itests/e2e "$program" -o "$1/$(basename "$program" .c)" -L"$2/penstock/nccl" -Wl,--as-needed -l:libnccl.so.2 -pthread \
      -Wl,-rpath-link,"$2" -ldl
  done
}

case ${1:-} in
  --bundle) bundle_here; exit ;;
  --bundle-of) bundle_of "${2:?a commit is needed}"; exit ;;
  --programs) programs "$2" "$3"; exit ;;
esac
# Where nothing was built before, and it can be.
[ -x "$build/gpu/bin/gpu_test" ] || bundle_here
exec python3 lab/bench/gpu.py --bundle "$build/gpu" --out "${1:-$build/gpu-results}"
