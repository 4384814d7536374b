#!/usr/bin/env bash
# clang-tidy with the checks of .clang-tidy: ci/tidy.sh [FILE...]; without FILE all of src. Not part of make check: two to three
# CPU seconds a file. Files are read one by one, so no build is needed.
set -uo pipefail
cd "$(dirname "$0")/.."
ci/install.sh build tidy
[ $# -gt 0 ] || mapfile -t files < <(git ls-files 'src/*.cpp' | grep -v -e _test.cpp -e /test_ -e /aarch64/ -e /generic/)
[ $# -eq 0 ] || files=("$@")
printf '%s\n' "${files[@]}" |
  xargs -P "$(nproc)" -I{} .venv-tidy/bin/clang-tidy --quiet {} -- -std=c++20 -Isrc -Iinclude -Iplugins -mavx2 -mavx512f -mclwb \
    -mclflushopt '-DPENSTOCK_VERSION_TEXT=""' && echo "tidy: ${#files[@]} files, nothing found"
