#!/usr/bin/env bash
# A torch tensor that is negated lazily changes its sign on the way through DLPack, to numpy and into an MPI message.
#
# The imaginary part of a conjugate, z.conj().imag, is a view of z with a bit that says "negate when read". Exchange by
# DLPack hands out the memory and has no place for the bit. PyTorch refuses to export a tensor with the like bit for
# conjugation, and tensor.numpy() refuses both; for the negative bit DLPack is let through. mpi4py takes torch tensors by
# DLPack, so a message has the wrong sign. Even torch.from_dlpack of torch's own tensor does.
#
# Seen with torch 2.13.0 (CPU), numpy 2.4.6, mpi4py 4.1.2 and mpich 5.0.2, the imaginary part of the conjugate of 1+2i:
#   torch                -2
#   torch.from_dlpack     2
#   numpy.from_dlpack     2
#   MPI_Allreduce         2     sum over one rank
#   tensor.numpy()       RuntimeError
#   DLPack of the conjugate itself: BufferError
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check \
  torch==2.13.0 numpy==2.4.6 mpi4py==4.1.2 mpich==5.0.2 2>/dev/null
unset MPI4PY_LIBMPI MPI4PY_MPIABI
cat >"$folder/case.py" <<'PYTHON'
import numpy
import torch
from mpi4py import MPI


def error_of(call, argument):
    try:
        call(argument)
    except Exception as error:
        return type(error).__name__


conjugate = torch.tensor([1 + 2j]).conj()
imaginary = conjugate.imag
summed = numpy.zeros(1, "f4")
MPI.COMM_WORLD.Allreduce(imaginary, summed)
values = imaginary, torch.from_dlpack(imaginary), numpy.from_dlpack(imaginary), summed
print(*(int(value[0]) for value in values), error_of(torch.Tensor.numpy, imaginary), error_of(numpy.from_dlpack, conjugate))
PYTHON
seen=$("$folder/venv/bin/mpiexec" -n 1 "$folder/venv/bin/python" "$folder/case.py" 2>"$folder/errors") || { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = '-2 2 2 2 RuntimeError BufferError' ] || { echo 'changed'; exit 1; }
echo 'as seen'
