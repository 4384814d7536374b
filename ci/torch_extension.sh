#!/usr/bin/env bash
# PyTorch's back end for the torch of a Python, without CMake: ci/torch_extension.sh PYTHON OUT, where OUT gets the package
# penstock and OUT/penstock/lib/libpenstock.so.0 is there already. Needs a compiler that knows C++20. Exit status 77: something is
# not there, and it says what.
set -euo pipefail
cd "$(dirname "$0")/.."
python=$1 out=$2/penstock
skip() { echo "PyTorch's back end: left out: $*"; exit 77; }
how=$("$python" -E plugins/torch/how_to_build.py 2> /dev/null) || skip "$python has no torch"
IFS=';' read -r -a found <<< "$how"
module=${found[0]} suffix=${found[1]} torch=${found[2]} abi=${found[3]}
command -v "${CXX:-g++}" > /dev/null || skip "no ${CXX:-g++}: CXX=PATH names a compiler"
[ -f "$torch/libtorch_python.so" ] || skip "no libtorch_python.so in $torch"
includes=()
for folder in "${found[@]:4}"; do includes+=(-isystem "$folder"); done
[ -f "${found[-1]}/Python.h" ] || skip "no Python.h in ${found[-1]} (python3-dev)"

mkdir -p "$out"
cp -r python/penstock/. "$out/"
objects=$(mktemp -d)
trap 'rm -rf "$objects"' EXIT
printf '%s\0' plugins/torch/*.cpp | xargs -0 -P "${JOBS:-$(nproc)}" -I FILE bash -c '"$0" -std=c++20 -O2 -fPIC -w -c "$1" \
  -o "$2/$(basename "$1").o" "${@:3}"' "${CXX:-g++}" FILE "$objects" -DPENSTOCK_TORCH_MODULE="$module" \
  -D_GLIBCXX_USE_CXX11_ABI="$abi" "${includes[@]}" -Iinclude -Iplugins/torch -Iplugins
"${CXX:-g++}" -shared -o "$out/torch/$module$suffix" "$objects"/*.o -L"$torch" -ltorch_python -ltorch_cpu -ltorch -lc10 \
  "$out/lib/libpenstock.so.0" -Wl,-rpath,"\$ORIGIN/../lib" -Wl,--allow-shlib-undefined
echo "PyTorch's back end: $module$suffix"
