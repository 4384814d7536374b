#!/usr/bin/env bash
# ncclGetUniqueId needs no GPU, and keeps a thread and a listening socket for each id until somebody uses it.
#
# An id looks like a random number, but it holds the address of a server that the call starts in the process: the ranks
# that are given the id meet there. Where none comes, as after a failed start or with an id made "to have one", thread and
# socket stay for the life of the process. The call also succeeds on a machine without a GPU or a driver, so that it tells
# nothing about whether NCCL can run: ncclCommInitRank fails there.
#
# Seen with nvidia-nccl-cu12 2.32.3, no GPU visible; threads and sockets of the process:
#   at first           1, 0
#   after one id       2, 1
#   after four ids     5, 4     all four with ncclSuccess
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check --no-deps nvidia-nccl-cu12==2.32.3 2>/dev/null
library=$(find "$folder/venv" -name libnccl.so.2)
seen=$(CUDA_VISIBLE_DEVICES='' "$folder/venv/bin/python" - "$library" <<'PYTHON'
import ctypes
import os
import sys


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def threads_and_sockets():
    targets = []
    for name in os.listdir("/proc/self/fd"):
        try:
            targets.append(os.readlink(f"/proc/self/fd/{name}"))
        except OSError:
            pass  # the folder's own descriptor
    return len(os.listdir("/proc/self/task")), sum(target.startswith("socket:") for target in targets)


nccl = ctypes.CDLL(sys.argv[1])
threads, sockets = threads_and_sockets()
for _ in range(4):
    identity = UniqueId()
    result = nccl.ncclGetUniqueId(ctypes.byref(identity))
    now = threads_and_sockets()
    print(result, now[0] - threads, now[1] - sockets)
PYTHON
)
echo "$seen"
[ "$seen" = '0 1 1
0 2 2
0 3 3
0 4 4' ] || { echo 'changed'; exit 1; }
echo 'as seen'
