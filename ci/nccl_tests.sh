#!/usr/bin/env bash
# NVIDIA's nccl-tests into the bundle of ci/gpu.sh: ci/nccl_tests.sh BUNDLE. They are fetched by nobody here and never
# kept: NCCL_TESTS names a folder of their sources (2.19.6). nvcc 13 is needed; nccl.h comes from NCCL_INCLUDE, or
# from NVIDIA's wheel (once, in .cache). Exit status 77: something is not there, and it says what.
set -euo pipefail
cd "$(dirname "$0")/.."
bundle=$(realpath "$1")
work=${BUILD:-build}/nccl-tests
header=2.27.7 # the newest whose header needs nothing of the device side
programs=(all_reduce all_gather reduce_scatter broadcast reduce alltoall sendrecv)

skip() { echo "nccl-tests: left out: $*"; exit 77; }

sources=${NCCL_TESTS:-.cache/nccl-tests}
[ -f "$sources/src/common.cu" ] || skip "no sources at $sources: NCCL_TESTS=FOLDER names them (github.com/NVIDIA/nccl-tests, v2.19.6)"
nvcc=${NVCC:-$(command -v nvcc || true)}
[ -n "$nvcc" ] || skip "no nvcc (13.0): NVCC=PATH names one"
home=${CUDA_HOME:-$("$nvcc" --dryrun -x cu /dev/null 2>&1 | sed -n 's/^#\$ TOP=//p')}
libraries=$home/lib64
[ -d "$libraries" ] || libraries=$home/lib
[ -f "$libraries/libcudart_static.a" ] || skip "no libcudart_static.a in $libraries: CUDA_HOME=FOLDER names CUDA's"

include=${NCCL_INCLUDE:-.cache/nccl-$header/nvidia/nccl/include}
if [ ! -f "$include/nccl.h" ]; then
  [ -z "${NCCL_INCLUDE:-}" ] || skip "no nccl.h in $include"
  wheels=$(mktemp -d)
  trap 'rm -rf "$wheels"' EXIT
  python3 -m pip download --quiet --no-deps --only-binary=:all: --dest "$wheels" "nvidia-nccl-cu13==$header" ||
    skip "no nccl.h, and NVIDIA's wheel cannot be had: NCCL_INCLUDE=FOLDER names its folder"
  python3 - "$wheels"/*.whl ".cache/nccl-$header" <<'END'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.endswith("/nccl.h")])
END
fi

rm -rf "$work/mpi" "$work/nccl"
mkdir -p "$work/mpi/include" "$work/mpi/lib" "$work/nccl/include" "$work/nccl/lib" "$bundle/nccl-tests"
cp lab/bench/small_mpi/mpi.h "$work/mpi/include/"
ar rcs "$work/mpi/lib/libmpi.a"
cp "$include/nccl.h" "$work/nccl/include/"
cp -L "$bundle/lib/penstock/nccl/libnccl.so.2" "$work/nccl/lib/libnccl.so"
work=$(realpath "$work")
targets=("${programs[@]/%/_perf}")
make -C "$sources/src" -j "${JOBS:-$(nproc)}" BUILDDIR="$work/out" MPI=1 MPI_HOME="$work/mpi" NCCL_HOME="$work/nccl" \
  NVCC="$nvcc" CUDA_HOME="$home" CUDA_LIB="$libraries" CUDARTLIB=cudart_static \
  NVCC_GENCODE="-gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_90,code=compute_90 -Xlinker -rpath-link=$bundle/lib" \
  os.build "${targets[@]/#/$work/out/}" > "$work/make.log" 2>&1 || { tail -20 "$work/make.log"; exit 1; }
cp "${targets[@]/#/$work/out/}" "$bundle/nccl-tests/"
strip "$bundle"/nccl-tests/*
echo "nccl-tests: ${#targets[@]} programs"
