#!/usr/bin/env bash
# Whether PyTorch's back end compiles against the headers of other versions of torch than the installed one:
#   ci/torch_headers.sh [VERSION ...]
# Headers are taken from torch's wheels (some 400 MB each, once) and kept in .cache/torch-headers.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- 2.11.0 2.15.0
cache=.cache/torch-headers
python=.venv-torch/bin/python
mkdir -p "$cache"

fetch() { # VERSION: the wheel for aarch64 is the smallest that has all headers
  local wheels
  wheels=$(mktemp -d)
  trap 'rm -rf "$wheels"' RETURN
  "$python" -m pip download --quiet --no-deps --only-binary=:all: --platform manylinux_2_28_aarch64 \
    --python-version 3.11 --dest "$wheels" "torch==$1"
  "$python" - "$wheels"/torch-*.whl "$cache/$1.part" <<'END'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    wheel.extractall(sys.argv[2], [name for name in wheel.namelist() if name.startswith("torch/include/")])
END
  mv "$cache/$1.part" "$cache/$1"
}

python_headers=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["include"])')
failed=0 compiled=0
for version in "$@"; do
  rm -rf "$cache/$version.part"
  [ -d "$cache/$version" ] || fetch "$version"
  headers=$cache/$version/torch/include
  for file in plugins/torch/*.cpp; do
    if g++ -std=c++20 -fsyntax-only -w -D_GLIBCXX_USE_CXX11_ABI=1 -DPENSTOCK_TORCH_MODULE=_c10d \
      -isystem "$headers" -isystem "$headers/torch/csrc/api/include" -isystem "$python_headers" \
      -Iinclude -Iplugins/torch -Iplugins "$file"; then
      compiled=$((compiled + 1))
    else
      failed=$((failed + 1))
      echo "torch headers: $file does not compile against torch $version" >&2
    fi
  done
done
echo "torch headers: $compiled compiled, $failed failed, against torch $*"
[ "$failed" = 0 ]
