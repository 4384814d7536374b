#!/usr/bin/env bash
# torch.distributed turns datetime.timedelta.max, the usual "no limit" of Python, into a time limit in the past.
#
# Timeouts are kept as nanoseconds of 64 bits in places, which hold 292 years. A longer one wraps without an error: the
# store's own timeout reads back as minus 185,000 years, and a client that is given it gives up at once, with a negative
# number of milliseconds in its message.
#
# Seen with torch 2.13.0 (CPU):
#   HashStore.set_timeout(timedelta(days=36500)), timeout    36500 days
#   HashStore.set_timeout(timedelta.max), timeout            -67519912 days
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6 2>/dev/null
seen=$("$folder/venv/bin/python" - 2>/dev/null <<'PYTHON'
from datetime import timedelta

import torch.distributed as dist

for limit in (timedelta(days=36500), timedelta.max):
    store = dist.HashStore()
    store.set_timeout(limit)
    print(store.timeout.days)
PYTHON
)
echo "$seen"
[ "$seen" = '36500
-67519912' ] || { echo 'changed'; exit 1; }
echo 'as seen'
