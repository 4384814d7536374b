#!/usr/bin/env bash
# Trains examples/train.py over a pool and over gloo, 4 ranks on 2 emulated nodes, and draws both losses.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${BUILD:-build}")
out=$build/torch
mkdir -p "$out"
export OMP_NUM_THREADS=1 PENSTOCK_NODES=2 PYTHONPATH=$build/python
train() { .venv-torch/bin/torchrun --nproc-per-node 4 examples/train.py --steps 30 "$@"; }
train --backend gloo --losses "$out/gloo.json"
train --backend penstock --losses "$out/penstock.json" --compare "$out/gloo.json" --plot "$out/losses.svg"
.venv-torch/bin/python - "$out/penstock.json" "$out/gloo.json" <<'END'
import json, sys
ours, theirs = (json.load(open(name))["losses"] for name in sys.argv[1:])
print(f"the losses of {len(ours)} steps differ by {max(abs(a - b) for a, b in zip(ours, theirs)):.1e} at most")
END
echo "both losses: $out/losses.svg"
