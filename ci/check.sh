#!/usr/bin/env bash
# make check. Runs every step, says which failed, fails when any did.
cd "$(dirname "$0")/.." || exit 1
failed=()

step() {
  local name=$1
  shift
  echo "== $name"
  "$@" || failed+=("$name")
}

format() {
  git ls-files -co --exclude-standard '*.cpp' '*.hpp' '*.c' '*.h' '*.cu' '*.cuh' |
    while read -r file; do [ -f "$file" ] && echo "$file"; done |
    xargs -r -P "$(nproc)" -n 16 clang-format --dry-run -Werror
}

scripts() { git ls-files -co --exclude-standard '*.sh' .ci/run | xargs -r -n 1 bash -n; }

step format format
step scripts scripts
step 'style rules' python3 ci/style_test.py
step style python3 ci/style.py
step headers ci/headers.sh
step docs python3 docs/check_docs.py
[ -x ci/cross-aarch64.sh ] && step 'aarch64 cross compile' ci/cross-aarch64.sh

if [ ${#failed[@]} -gt 0 ]; then
  printf 'check: failed: %s\n' "$(IFS=,; echo "${failed[*]}")"
  exit 1
fi
echo 'check: all passed'
