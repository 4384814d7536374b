#!/usr/bin/env bash
# jax.lax.pmean of four devices that all hold 100 in an int8 is -28: JAX's reductions between devices are not those of
# jax.numpy.
#
# pmean adds in the type of its argument, which wraps, and then divides as floating point: the mean of numbers lies outside
# their range. Four times 2**30 in JAX's ordinary int32 have the mean 0. jax.numpy.mean of the same numbers is right. In
# the same way psum of float16 overflows on the way where sum does not, and pmax and pmin between CPU devices drop a NaN,
# which max and min keep. So a function changes its result when its array is spread over devices.
#
# Seen with jax 0.7.2 and numpy 2.4.6, four CPU devices in one process:
#                                               jax.numpy       between devices
#   mean of 100 100 100 100, int8               100             -28
#   mean of four times 2**30, int32             1073741824      0
#   sum of 6e4 6e4 -6e4 -6e4, float16           0               inf
#   max of 1 nan 1 1, float32                   nan             1
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder JAX_PLATFORMS=cpu XLA_FLAGS=--xla_force_host_platform_device_count=4
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check jax==0.7.2 jaxlib==0.7.2 numpy==2.4.6 2>/dev/null
cat >"$folder/case.py" <<'PYTHON'
import jax
import jax.numpy as jnp
import numpy
from jax.sharding import Mesh, PartitionSpec

mesh = Mesh(numpy.array(jax.devices()), ("devices",))


def show(name, here, between, values):
    spread = jax.shard_map(
        lambda value: between(value, "devices"),
        mesh=mesh, in_specs=PartitionSpec("devices"), out_specs=PartitionSpec())
    print(name, f"{float(here(values)):.10g} {float(spread(values)[0]):.10g}")


show("mean int8", jnp.mean, jax.lax.pmean, jnp.full(4, 100, jnp.int8))
show("mean int32", jnp.mean, jax.lax.pmean, jnp.full(4, 2**30, jnp.int32))
show("sum float16", jnp.sum, jax.lax.psum, jnp.array([6e4, 6e4, -6e4, -6e4], jnp.float16))
show("max float32", jnp.max, jax.lax.pmax, jnp.array([1, jnp.nan, 1, 1], jnp.float32))
PYTHON
seen=$("$folder/venv/bin/python" "$folder/case.py" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = 'mean int8 100 -28
mean int32 1073741824 0
sum float16 0 inf
max float32 nan 1' ] || { echo 'changed'; exit 1; }
echo 'as seen'
