#!/usr/bin/env bash
# mpi4py's from_numpy_dtype makes a type of one character of a string of five: the rest of each name is not sent.
#
# mpi4py.util.dtlib turns numpy's structured types into MPI datatypes. The length of a string field (S5, or U5 of Unicode)
# is dropped, while offsets and extent are right. So records arrive complete in their numbers, and each string is cut to
# its first character; a one-letter name in a test shows nothing. A plain array of strings is squeezed to as many
# characters as it has strings. Arrays of numbers within a field keep their shape, and V3, of 3 bytes, is refused.
#
# Seen with mpi4py 4.1.2, mpich 5.0.2 and numpy 2.4.6, sent to itself with the type of its dtype; size of the dtype, size
# and extent of the MPI type, what arrives:
#   S5 and a double, alpha 1.5, beta 2.5   13, 9 13    a 1.5, b 2.5
#   U5 and a double, alpha 1.5, beta 2.5   28, 12 28   a 1.5, b 2.5
#   S5, alpha and beta                     5, 1 1      al and an empty string
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export TMPDIR=$folder
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check mpi4py==4.1.2 mpich==5.0.2 numpy==2.4.6 2>/dev/null
unset MPI4PY_LIBMPI MPI4PY_MPIABI
cat >"$folder/case.py" <<'PYTHON'
import numpy
from mpi4py import MPI
from mpi4py.util import dtlib


def send(sent):
    kind = dtlib.from_numpy_dtype(sent.dtype).Commit()
    arrived = numpy.zeros_like(sent)
    MPI.COMM_SELF.Sendrecv([sent, len(sent), kind], 0, recvbuf=[arrived, len(arrived), kind])
    print(sent.dtype.itemsize, kind.Get_size(), kind.extent, arrived.tolist())


records = [("alpha", 1.5), ("beta", 2.5)]
send(numpy.array(records, [("name", "S5"), ("value", "f8")]))
send(numpy.array(records, [("name", "U5"), ("value", "f8")]))
send(numpy.array(["alpha", "beta"], "S5"))
PYTHON
seen=$("$folder/venv/bin/mpiexec" -n 1 "$folder/venv/bin/python" "$folder/case.py" 2>"$folder/errors") ||
  { cat "$folder/errors"; exit 1; }
echo "$seen"
[ "$seen" = "13 9 13 [(b'a', 1.5), (b'b', 2.5)]
28 12 28 [('a', 1.5), ('b', 2.5)]
5 1 1 [b'al', b'']" ] || { echo 'changed'; exit 1; }
echo 'as seen'
