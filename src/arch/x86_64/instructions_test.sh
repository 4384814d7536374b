#!/bin/sh
# The instructions that the functions are named for are in the built library, and none beyond SSE2
# stands where the CPU was not asked. Usage: instructions_test.sh LIBRARY [OBJDUMP]
set -eu
library=$1
objdump=${2:-objdump}
listing=$(mktemp)
trap 'rm -f "$listing"' EXIT
"$objdump" -d -C --no-show-raw-insn "$library" > "$listing"
failures=0

# body FUNCTION: its instructions
body() {
  awk -v name="<penstock::arch::x86_64::$1(" '
    /^[0-9a-f]+ </ { inside = index($0, name) > 0; next }
    inside { print }' "$listing"
}

# has FUNCTION INSTRUCTION [OPERAND]
has() {
  if ! body "$1" | grep -Eq "[[:space:]]$2[[:space:]].*${3:-}|[[:space:]]$2\$"; then
    echo "FAIL: $1 has no $2 ${3:-}"
    failures=$((failures + 1))
  fi
}

# lacks FUNCTION PATTERN
lacks() {
  if body "$1" | grep -Eq "$2"; then
    echo "FAIL: $1 contains $2"
    failures=$((failures + 1))
  fi
}

has write_back_clflush clflush
has write_back_clflushopt clflushopt
has write_back_clwb clwb
has store_fence sfence
has full_fence mfence
has nt_word movnti
has nt_bytes maskmovdqu
has relax pause
has sse2::nt_copy 'movnt(dq|ps|pd)' '%xmm'
has sse2::nt_line sfence
has sse2::nt_line movnti
has sse2::nt_tagged sfence
has avx2::nt_copy 'vmovnt(dq|ps|pd)' '%ymm'
has avx2::nt_line sfence
has avx2::nt_tagged sfence
has avx512::nt_line 'vmovnt(dq|ps|pd)' '%zmm'
has avx512::nt_copy 'vmovnt(dq|ps|pd)' '%zmm'
has avx512::nt_tagged 'vmovnt(dq|ps|pd)' '%zmm'
has avx512::send_line clwb
has avx512::send_line 'vmov(dqa64|dqu64|aps|ups)' '%zmm'
has avx512::send_tagged clwb
lacks avx512::nt_line 'sfence'
lacks avx512::nt_tagged 'sfence|movnti'
for function in write_back_clflush write_back_clflushopt write_back_clwb store_fence full_fence \
  nt_word nt_bytes sse2::nt_line sse2::nt_copy sse2::nt_tagged sse2::load_line sse2::load_tagged \
  sse2::store_tagged sse2::store_line; do
  lacks "$function" '%[yz]mm'
done
for function in avx2::nt_line avx2::nt_copy avx2::nt_tagged avx2::load_tagged avx2::store_tagged; do
  lacks "$function" '%zmm|%k[0-7]'
done

# Outside the files that carry their own instruction set there is nothing beyond SSE2.
if awk '/file format/ { member = $1 } member !~ /avx/ && /%[yz]mm/ { print member, $0; found = 1 }
        END { exit !found }' "$listing"; then
  echo "FAIL: wide instructions outside avx2.cpp and avx512.cpp"
  failures=$((failures + 1))
fi

[ "$failures" -eq 0 ] && echo "all instructions as they should be"
exit "$failures"
