#!/bin/sh
# Compiles the libraries for aarch64, each source by itself, and looks that the cache instructions are there. Code is only
# generated where it is this processor's own (ci/front_end.sh).
# Usage: ci/cross-aarch64.sh [BUILD_DIR] [TARGET...]
# Needs: apt-get install g++-aarch64-linux-gnu libfmt-dev libexpected-dev libxxhash-dev libhwy-dev
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build-aarch64}
[ $# -gt 0 ] && shift

if ! command -v aarch64-linux-gnu-g++ > /dev/null; then
  echo "cross-aarch64: aarch64-linux-gnu-g++ is absent: apt-get install g++-aarch64-linux-gnu" >&2
  exit 1
fi

headers=$build/headers
mkdir -p "$headers"
for header in fmt tl xxhash.h hwy; do
  if [ ! -e "/usr/include/$header" ]; then
    echo "cross-aarch64: /usr/include/$header is absent:" \
      "apt-get install libfmt-dev libexpected-dev libxxhash-dev libhwy-dev" >&2
    exit 1
  fi
  ln -sfn "/usr/include/$header" "$headers/$header"
done

cmake -G Ninja -S "$root" -B "$build" \
  -DCMAKE_TOOLCHAIN_FILE="$root/cmake/aarch64.cmake" \
  -DPENSTOCK_HEADER_ONLY_DIR="$headers" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_FLAGS_RELEASE='-O1 -DNDEBUG' -DCMAKE_CXX_COMPILER_LAUNCHER="$root/ci/front_end.sh" \
  -DPENSTOCK_BUILD_TESTS=OFF -DPENSTOCK_BUILD_BENCH=OFF -DPENSTOCK_BUILD_PLUGINS=OFF -DPENSTOCK_CUDA=OFF \
  -DPENSTOCK_UNITY=OFF -DPENSTOCK_PRECOMPILE=ON -DCMAKE_COMPILE_WARNING_AS_ERROR=ON > "$build/configure.log" 2>&1 || {
  cat "$build/configure.log" >&2
  exit 1
}

# Every module's static library, or the targets named.
if [ $# -eq 0 ]; then
  set -- $(ninja -C "$build" -t targets all | sed -n 's/^\(penstock_[a-z]*\): phony$/\1/p' |
    while read -r target; do
      [ -z "$(ninja -C "$build" -t query "$target" | grep '\.a$')" ] || echo "$target"
    done)
fi
ninja -C "$build" "$@"

library=$build/lib/libpenstock_arch.a
for instruction in 'dc[[:space:]]+cvac' 'dc[[:space:]]+civac' 'dsb[[:space:]]+sy' 'stlr' 'ldar'; do
  if ! aarch64-linux-gnu-objdump -d "$library" | grep -Eq "$instruction"; then
    echo "cross-aarch64: $instruction is not in $library" >&2
    exit 1
  fi
done
echo "cross-aarch64: built $*"
