#!/usr/bin/env bash
# What the first attempt of a torchrun job has put into the store is still there in the second one.
#
# With --max-restarts torchrun starts the ranks again after a failure. Its store serves all attempts, with one set of keys. A comment in
# torch's rendezvous.py says that each retry has a new store. So a library that lets ranks meet by fixed keys finds those of the dead
# ranks, addresses among them, and must add TORCHELASTIC_RESTART_COUNT to its keys, or something that is new in each attempt.
#
# Seen with torch 2.13.0 (CPU), one rank that sets a key and fails in its first attempt; whether the key is there when an attempt begins:
#   --master-port    attempt 0 False   attempt 1 True
#   --standalone     attempt 0 False   attempt 1 True
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6 2>/dev/null
cat >"$folder/case.py" <<'PYTHON'
import os
import sys

import torch.distributed as dist

store, _, _ = next(iter(dist.rendezvous("env://")))
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
print("attempt", attempt, store.check(["a key"]), flush=True)
store.set("a key", "a value")
sys.exit(attempt == "0")
PYTHON
port=$(python3 -c 'import socket; probe = socket.socket(); probe.bind(("127.0.0.1", 0)); print(probe.getsockname()[1])')
attempts() {
  timeout 100 "$folder/venv/bin/torchrun" "$@" --max-restarts 1 --nproc-per-node 1 "$folder/case.py" 2>/dev/null | grep ^attempt | paste -sd ' '
}
seen="port: $(attempts --master-port "$port")
standalone: $(attempts --standalone)"
echo "$seen"
[ "$seen" = 'port: attempt 0 False attempt 1 True
standalone: attempt 0 False attempt 1 True' ] || { echo 'changed'; exit 1; }
echo 'as seen'
