#!/usr/bin/env bash
# get_optimizer_state_dict of torch's distributed checkpoints changes how an optimizer trains that has made no step yet.
#
# So that there is a state to save, the call lets a fresh optimizer make a step with gradients of zero and a learning rate
# of zero, and leaves what that step has written. Adam then corrects its averages as if this were the second step, ASGD
# loses its first one, and Rprop, which begins with the learning rate as its step size, hardly moves for good. A run that
# saves a checkpoint at the start, or only looks at the state, trains otherwise than one that does not. The documentation
# says only that the call returns the state. optimizer.state_dict() changes nothing, nor does the call after a first step.
#
# Seen with torch 2.13.0 (CPU), one weight of 1 with the constant gradient 2, learning rate 0.1, after each of three steps:
#             as such                  after get_optimizer_state_dict
#   Adam      0.9 0.8 0.7              0.9256 0.8397 0.7488
#   Adamax    0.9 0.8 0.7              0.9474 0.8773 0.7985
#   ASGD      0.8 0.6 0.4              1 0.8 0.6
#   Rprop     0.9 0.78 0.636           1 1 1
#   Adagrad   0.9 0.8293 0.7716        0.9 0.8293 0.7716
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check torch==2.13.0 numpy==2.4.6 2>/dev/null
cat >"$folder/case.py" <<'PYTHON'
import torch
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict


def weights(kind, look):
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    optimizer = kind(model.parameters(), lr=0.1)
    if look:
        get_optimizer_state_dict(model, optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        (2 * model.weight).sum().backward()
        optimizer.step()
        yield f"{model.weight.item():.4g}"


for name in "Adam", "Adamax", "ASGD", "Rprop", "Adagrad":
    kind = getattr(torch.optim, name)
    print(name, *weights(kind, False), "/", *weights(kind, True))
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = 'Adam 0.9 0.8 0.7 / 0.9256 0.8397 0.7488
Adamax 0.9 0.8 0.7 / 0.9474 0.8773 0.7985
ASGD 0.8 0.6 0.4 / 1 0.8 0.6
Rprop 0.9 0.78 0.636 / 1 1 1
Adagrad 0.9 0.8293 0.7716 / 0.9 0.8293 0.7716' ] || { echo 'changed'; exit 1; }
echo 'as seen'
