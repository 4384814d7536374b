#!/usr/bin/env bash
# Spin's verifier ends with status 0 when it has found an error, and reports "errors: 0" when it has not finished.
#
# A CI step that runs the verifier, by itself or by spin -search, passes whatever it finds. One that looks for the line
# "errors: 0" passes as well where the search was cut off by its limit of depth (10,000 steps unless told otherwise): the
# line comes all the same, with status 0, and only a message above it says that the depth was too small. So a model that
# grows past the limit turns its own proof off. Both the count and the absence of "max search depth too small" must be checked.
#
# Seen with spin 6.5.2+dfsg-1 (Debian 12) and gcc, a counter that fails an assertion in step 301:
#   pan           errors: 1   status 0
#   spin -search  errors: 1   status 0
#   pan -m50      errors: 0   status 0, "error: max search depth too small"
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
cd "$folder"
apt-get download spin=6.5.2+dfsg-1 >/dev/null 2>&1
dpkg -x spin_*.deb package
spin=$folder/package/usr/bin/spin
cat >counter.pml <<'PROMELA'
byte count;
active proctype counter() {
  do
  :: count < 200 -> count++
  :: count == 150 -> assert(false)
  :: count >= 200 -> break
  od
}
PROMELA
"$spin" -a counter.pml
gcc -w -o pan pan.c

check() {
  local status=0 errors
  "${@:2}" >output 2>&1 || status=$?
  errors=$(grep -o 'errors: [0-9]*' output)
  echo "$(basename "$2") ${*:3}: $errors, status $status"
  [ "$errors, $status" = "$1, 0" ] || { echo "changed: expected $1 and status 0"; exit 1; }
}
check 'errors: 1' ./pan
check 'errors: 1' "$spin" -search counter.pml
check 'errors: 0' ./pan -m50
grep -q 'max search depth too small' output || { echo 'changed: nothing is said of the depth'; exit 1; }
echo 'as seen'
