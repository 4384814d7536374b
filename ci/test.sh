#!/usr/bin/env bash
# What make test runs once all is built: the tests, and the short proof beside them. Two tests at a time leave cores idle, for
# jobs of several ranks often sleep; the simulations only compute, and take what is left. Then nothing of them may be left.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}
began=$(date +%s)
TMPDIR=$(mktemp -d "${TMPDIR:-/var/tmp}/penstock.XXXXXX") || exit 1 # some need a disk, which /tmp may not be
chmod 1777 "$TMPDIR" # as /tmp: some tests run commands as other users
E2E_PENSTOCK=$(sed -n 's/^penstock_BINARY_DIR:STATIC=//p' "$build/CMakeCache.txt")/bin/penstock # as CMake spells it
E2E_SOURCE=$(sed -n 's/^penstock_SOURCE_DIR:STATIC=//p' "$build/CMakeCache.txt")
export TMPDIR E2E_PENSTOCK E2E_SOURCE E2E_RECORD=$TMPDIR/tests

# Imports what end-to-end tests are made of once for all of them (tests/e2e/test_forks.py), and ends when its input does.
coproc forks { cd tests/e2e && exec python3 -B test_forks.py "$TMPDIR/forks"; }
serving=$forks_PID
read -r _ <&"${forks[0]}" || { echo 'error: tests/e2e/test_forks.py has ended: see above'; exit 1; }
export E2E_FORKS=$TMPDIR/forks

ci/idle.sh proof/prove.py --build "$build" --jobs "${JOBS:-$(nproc)}" --short >"$build/prove.log" 2>&1 &
proof=$!
stop() { kill -- -$proof 2>/dev/null; rm -rf "$TMPDIR"; }
trap stop EXIT
trap 'exit 130' INT TERM

ctest --test-dir "$build" --output-on-failure --no-label-summary -j 2 -LE 'proof|large|long'
tested=$?
exec {forks[1]}>&-
wait "$serving"
rm -f "$E2E_FORKS"
wait $proof
proved=$?
trap 'rm -rf "$TMPDIR"' EXIT
cat "$build/prove.log"
if ! python3 -B tests/e2e/leftovers.py "$TMPDIR" "$began"; then
  trap - EXIT
  echo "$TMPDIR stays: what a test has left may tell why it failed"
  exit 1
fi
[ $tested = 0 ] && [ $proved = 0 ]
