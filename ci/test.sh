#!/usr/bin/env bash
# What make test runs once all is built: the tests, and the short proof beside them. Two tests at a time leave cores idle, for
# jobs of several ranks often sleep; the simulations only compute, and take what is left.
set -u
cd "$(dirname "$0")/.." || exit 1
build=${BUILD:-build}

ci/idle.sh proof/prove.py --build "$build" --jobs "${JOBS:-$(nproc)}" --short >"$build/prove.log" 2>&1 &
proof=$!
stop() { kill -- -$proof 2>/dev/null; }
trap stop EXIT
trap 'exit 130' INT TERM

ctest --test-dir "$build" --output-on-failure --no-label-summary -j 2 -LE 'proof|large|long'
tested=$?
wait $proof
proved=$?
trap - EXIT
cat "$build/prove.log"
[ $tested = 0 ] && [ $proved = 0 ]
