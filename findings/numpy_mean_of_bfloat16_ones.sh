#!/usr/bin/env bash
# numpy's mean of a thousand ones in bfloat16 is 0.256, and their standard deviation 0.5.
#
# numpy adds float16 in pairs, and for a mean in float32. For ml_dtypes' types, bfloat16 and the float8 of JAX, neither
# holds: each partial sum is rounded to the type, and 256 + 1 is 256 again. So a sum stands still at 256, for float8 at 16
# or 8, and the mean falls with the length. It needs no unusual values, nor many: 300 are enough, or 20 in float8. numpy's
# dot of the same array with itself is right, and so is JAX. A host that averages gathered losses or gradients with numpy
# gets them too small.
#
# Seen with ml_dtypes 0.6.0, numpy 2.4.6, jax 0.7.2, 1000 ones (100 for float8_e4m3fn), through float32 for printing:
#                      sum    mean      std       dot
#   bfloat16           256    0.2559    0.5039    1000
#   float8_e4m3fn      16     0.1562    0.4062    96       (100 rounds to 96)
#   float16            1000   1         0         1000
#   jax, bfloat16      1000   1         0         1000
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  ml_dtypes==0.6.0 numpy==2.4.6 jax==0.7.2 jaxlib==0.7.2 2>/dev/null
cat >"$folder/case.py" <<'PYTHON'
import jax.numpy
import ml_dtypes
import numpy


def show(name, library, ones):
    results = library.sum(ones), library.mean(ones), library.std(ones), library.dot(ones, ones)
    print(name, *(f"{float(result):.4g}" for result in results))


show("bfloat16", numpy, numpy.ones(1000, ml_dtypes.bfloat16))
show("float8_e4m3fn", numpy, numpy.ones(100, ml_dtypes.float8_e4m3fn))
show("float16", numpy, numpy.ones(1000, numpy.float16))
show("jax", jax.numpy, jax.numpy.ones(1000, jax.numpy.bfloat16))
PYTHON
seen=$(JAX_PLATFORMS=cpu "$folder/venv/bin/python" "$folder/case.py" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = 'bfloat16 256 0.2559 0.5039 1000
float8_e4m3fn 16 0.1562 0.4062 96
float16 1000 1 0 1000
jax 1000 1 0 1000' ] || { echo 'changed'; exit 1; }
echo 'as seen'
