#!/usr/bin/env bash
# JAX's helpers for numpy arrays on several hosts drop the upper half of 64-bit integers once there is more than one process.
#
# multihost_utils broadcasts, gathers and compares host data, numpy arrays among them: a seed, a time, an offset in a
# file. They pass through devices, where JAX keeps 32 bits unless jax_enable_x64 is set: 2**40 + 7 arrives as 7, and a
# double is rounded, without a warning. A broadcast also loses the sign of -0.0. With a single process, as in a test, the
# values are returned as they are. assert_equal compares a host's own numbers with those that have been sent to it, and so
# fails for equal ones.
#
# Seen with jax 0.7.2 (CPU) and numpy 2.4.6, all processes holding the same values:
#                                        1 process        2 processes
#   broadcast_one_to_all of 2**40 + 7    1099511627783    7
#   process_allgather of 2**40 + 7       1099511627783    7
#   assert_equal of 2**40 + 7            passes           AssertionError
#   broadcast_one_to_all of -0.0         -0.0             0.0
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder JAX_PLATFORMS=cpu
unset JAX_ENABLE_X64
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check jax==0.7.2 jaxlib==0.7.2 numpy==2.4.6 2>/dev/null
cat >"$folder/case.py" <<'PYTHON'
import socket
import subprocess
import sys
import jax
import numpy
from jax.experimental import multihost_utils


def work(port, rank, size):
    if size > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", size, rank)
    large = numpy.array([2**40 + 7])
    sent = multihost_utils.broadcast_one_to_all(large)
    gathered = multihost_utils.process_allgather(large)
    try:
        multihost_utils.assert_equal(large)
        equal = "passes"
    except AssertionError:
        equal = "AssertionError"
    zero = multihost_utils.broadcast_one_to_all(numpy.array([-0.0], "f4"))
    if rank == 0:
        print(sent[0], gathered.ravel()[0], equal, zero[0])


if len(sys.argv) == 4:
    work(*map(int, sys.argv[1:]))
else:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    for size in 1, 2:
        ranks = [subprocess.Popen([sys.executable, __file__, str(port), str(rank), str(size)]) for rank in range(size)]
        if any([rank.wait() for rank in ranks]):
            sys.exit("a process failed")
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = '1099511627783 1099511627783 passes -0.0
7 7 AssertionError 0.0' ] || { echo 'changed'; exit 1; }
echo 'as seen'
