"""Rank 1 is killed while the others have collectives outstanding; what these see of it.

usage: nonblocking_death.py WAY FOLDER RANKS. As collective_death.py. WAY: by what the others end their requests: wait,
waitall, testall, waitany, persistent.
"""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

WAY, FOLDER, RANKS = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])


def wait_for_survivors():
    while len([path for path in FOLDER.iterdir() if path.name.isdigit()]) < RANKS - 1:
        time.sleep(0.02)


if len(sys.argv) == 4:  # with what the launcher has left open, by which it talks to its ranks
    subprocess.run([sys.executable, *sys.argv, "as rank"], close_fds=False)
    wait_for_survivors()
    sys.exit(0)

import numpy as np  # noqa: E402
from mpi4py import MPI  # noqa: E402

comm = MPI.COMM_WORLD.Dup()
comm.Set_errhandler(MPI.ERRORS_RETURN)
own, totals = np.ones(1000), [np.zeros(1000) for _ in range(3)]
for call in range(10):
    comm.Allreduce(own, totals[0])
persistent = [comm.Allreduce_init(own, total) for total in totals]
if comm.rank == 1:
    comm.Iallreduce(own, totals[0]).Wait()
    os.kill(os.getpid(), signal.SIGKILL)
comm.Iallreduce(own, totals[0]).Wait()
if WAY == "persistent":
    MPI.Prequest.Startall(persistent)
    requests = persistent
else:
    requests = [comm.Iallreduce(own, total) for total in totals]
told = []


def tell(code):
    told.append(MPI.Get_error_string(code) if code else "nothing")


if WAY in ("wait", "persistent"):
    for request in requests:
        try:
            request.Wait()
            tell(0)
        except MPI.Exception as error:
            tell(error.Get_error_code())
elif WAY in ("waitall", "testall"):
    statuses = [MPI.Status() for _ in requests]
    try:
        while not (MPI.Request.Waitall if WAY == "waitall" else MPI.Request.Testall)(requests, statuses):
            pass
        tell(0)
    except MPI.Exception as error:
        assert error.Get_error_class() == MPI.ERR_IN_STATUS, error
        for status in statuses:
            tell(status.error)
else:
    for _ in requests:
        try:
            MPI.Request.Waitany(requests)
            tell(0)
        except MPI.Exception as error:
            tell(error.Get_error_code())
for call in (lambda: comm.Iallreduce(own, totals[0]).Wait(), lambda: comm.Allreduce(own, totals[0])):
    try:
        call()
        tell(0)
    except MPI.Exception as error:
        tell(error.Get_error_code())
(FOLDER / f"{comm.rank}.part").write_text("\n".join(told))
(FOLDER / f"{comm.rank}.part").rename(FOLDER / str(comm.rank))
wait_for_survivors()
os._exit(1)
