#!/usr/bin/env bash
# compare_set of torch.distributed's stores returns the expected value for a key that is not there, and stores nothing.
#
# A compare-and-set that returns a value returns the one that the store holds afterwards; so a caller compares it with what
# it wanted to find out whether it has won, or with what it expected to find out what was there. Where the key is absent,
# the store holds nothing, and all three kinds of store return the caller's own expected value: it looks as if the key
# held it. Only an empty expected value matches an absent key.
#
# Seen with torch 2.13.0 (CPU); returned value, and whether the key is there then:
#   TCPStore   absent: old False   absent, expected empty: new True
#   FileStore  absent: old False   absent, expected empty: new True
#   HashStore  absent: old False   absent, expected empty: new True
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6 2>/dev/null
cat >"$folder/case.py" <<'PYTHON'
import sys
from torch.distributed import FileStore, HashStore, TCPStore

for store in TCPStore("127.0.0.1", 0, 1, True), FileStore(sys.argv[1], 1), HashStore():
    found = store.compare_set("owner", "old", "new").decode(), store.check(["owner"])
    empty = store.compare_set("other", "", "new").decode(), store.check(["other"])
    print(type(store).__name__, "absent:", *found, "absent, expected empty:", *empty)
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" "$folder/store" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = 'TCPStore absent: old False absent, expected empty: new True
FileStore absent: old False absent, expected empty: new True
HashStore absent: old False absent, expected empty: new True' ] || { echo 'changed'; exit 1; }
echo 'as seen'
