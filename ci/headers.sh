#!/usr/bin/env bash
# Each header compiles alone (and twice); the C headers as C and as C++. Not those of plugins/torch, which need torch's.
# Left to ci/cross-aarch64.sh, which compiles each source of src/ by itself: a header with #pragma once that its source,
# x.cpp for x.hpp, includes before all else.
set -uo pipefail
cd "$(dirname "$0")/.."

own_isa=x86_64
[ "$(uname -m)" = aarch64 ] && own_isa=aarch64

headers() { git ls-files -co --exclude-standard "$@" | while read -r f; do [ -f "$f" ] && echo "$f"; done; }
built_alone() {
  [[ $1 == src/* ]] || return 1
  local first
  first=$(grep -m 1 '^#include' "${1%.hpp}.cpp" 2>/dev/null | sed -n 's/^#include "\(.*\)"$/\1/p')
  [ -n "$first" ] && [[ /$1 == */$first ]] && grep -q '^#pragma once' "$1"
}
mapfile -t cpp_headers < <(
  headers 'include/*.hpp' 'src/*.hpp' 'plugins/*.hpp' 'lab/*.hpp' |
    grep -v -e '^src/arch/[a-z0-9_]*/' -e '^plugins/torch/' | while read -r f; do built_alone "$f" || echo "$f"; done
  headers 'src/arch/generic/*.hpp' "src/arch/$own_isa/*.hpp"
)
mapfile -t c_headers < <(headers 'include/*.h')

compile_one() {
  printf '#include "%s"\n#include "%s"\n' "$PWD/$3" "$PWD/$3" |
    $1 -std="$2" -fsyntax-only -Wall -Wextra -Wno-missing-field-initializers -Werror \
      -I. -Iinclude -Isrc -Iplugins -Ilab -Itools \
      -I"$(dirname "$3")" - || { echo "$3: does not compile alone ($2)"; exit 1; }
}
export -f compile_one

compile_all() {
  local compiler=$1 standard=$2
  shift 2
  [ $# -eq 0 ] && return
  printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} bash -c "compile_one '$compiler' $standard {}"
}

failed=0
compile_all "${CXX:-c++} -x c++" c++20 "${cpp_headers[@]}" || failed=1
compile_all "${CC:-cc} -x c" c99 "${c_headers[@]}" || failed=1
compile_all "${CXX:-c++} -x c++" c++20 "${c_headers[@]}" || failed=1
[ $failed = 0 ] && echo "headers: all $((${#cpp_headers[@]} + ${#c_headers[@]})) that ci/cross-aarch64.sh leaves out compile alone"
exit $failed
