"""Nonblocking and persistent collectives of unmodified programs through the pool: results, progress, deaths."""

import os
import subprocess
import unittest

from support import MPIEXEC, OTHER_VENVS, PROGRAMS, PYTHON, WINDOW_LIBRARY, Case, clean_environment

IN_POOL = "collectives of {} ranks go through the pool"
TELL = {"PENSTOCK_LOG": "info"}
# A rank finalizes the MPI without completing its request.
NEVER_ASKED = """import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
for call in range(3): comm.Barrier()
given, got = np.ones(100_000), np.zeros(100_000)
request = comm.Iallreduce(given, got)
if comm.rank == 0: request.Wait()
MPI.Finalize()
assert (got == 2).all()
print("never asked: ok", flush=True)
"""
LATE = """import time
import numpy as np
from mpi4py import MPI
comm = MPI.COMM_WORLD
for call in range(3): comm.Barrier()
if comm.rank == 1: time.sleep(1.5)
given, got = np.ones(10), np.zeros(10)
request = comm.Iallreduce(given, got)
MPI.Request.{wait}
print("late: ok", flush=True)
"""


class Nonblocking(Case):
    def run_ranks(self, ranks, *command, mpi=None, nodes=2, mode="software", environment=None, **more):
        mpiexec, python = (str(OTHER_VENVS[mpi] / "bin" / name) for name in ("mpiexec", "python")) if mpi else \
            (MPIEXEC, PYTHON)
        return self.penstock("run", "--mpiexec", mpiexec, "-n", ranks, "--nodes", nodes, "--mode", mode, "--", python,
                             "-m", "mpi4py", *command, environment=environment or clean_environment(**TELL), **more)

    def each_mpi(self):
        for mpi in (None, *OTHER_VENVS):
            if mpi is None or os.access(OTHER_VENVS[mpi] / "bin/mpiexec", os.X_OK):
                with self.subTest(mpi=mpi or "mpich"):
                    yield mpi

    def random_calls(self, ranks, seed, rounds=40, **how):
        done = self.run_ranks(ranks, PROGRAMS / "nonblocking.py", seed, rounds, **how)
        self.assertEqual(done.stdout.count(f"nonblocking: ok: {rounds} rounds"), ranks, done.stderr)
        self.assertIn(IN_POOL.format(ranks), done.stderr)

    def test_give_what_mpi_promises(self):
        for ranks in (2, 3, 4):
            self.random_calls(ranks, ranks)

    def test_in_hardware_and_simulated_mode(self):
        self.random_calls(3, 5, mode="hardware")
        self.random_calls(2, 6, rounds=15, mode="simulated")

    def test_under_the_other_mpis(self):
        for mpi in self.each_mpi():
            if mpi is not None:
                self.random_calls(2, 7, mpi=mpi)

    def test_progress_without_being_asked(self):
        for mpi in self.each_mpi():
            folder = self.folder / (mpi or "mpich")
            folder.mkdir()
            done = self.run_ranks(2, PROGRAMS / "nonblocking_progress.py", folder, mpi=mpi)
            self.assertEqual(done.stdout.count("nonblocking progress: ok"), 2, done.stderr)

    def test_alone_bring_a_communicator_to_the_pool(self):
        for mpi in self.each_mpi():
            done = self.run_ranks(2, PROGRAMS / "nonblocking_only.py", 1, mpi=mpi)
            self.assertEqual((done.stdout.count("nonblocking only: ok"), done.stderr.count(IN_POOL.format(2))), (2, 8),
                             done.stderr)
        done = self.run_ranks(4, PROGRAMS / "nonblocking_only.py", 2)
        self.assertEqual((done.stdout.count("nonblocking only: ok"), done.stderr.count(IN_POOL.format(4))), (4, 16))

    def test_are_chosen_by_name(self):
        for value, in_pool in (("none", False), ("-nonblocking", False), ("-iallreduce", False), ("-allreduce", False),
                               ("iallreduce", True), ("nonblocking", True), ("allreduce", True)):
            done = self.run_ranks(2, PROGRAMS / "nonblocking_only.py", 1,
                                  environment=clean_environment(PENSTOCK_COLL=value, **TELL))
            self.assertEqual((done.stdout.count("nonblocking only: ok"), IN_POOL.format(2) in done.stderr), (2, in_pool),
                             value)

    def test_mpi_reduces_inside_the_programs_calls(self):
        for mpi in self.each_mpi():
            done = self.run_ranks(2 if mpi else 3, PROGRAMS / "nonblocking_operations.py", mpi=mpi)
            self.assertEqual(done.stdout.count("operations: ok"), 2 if mpi else 3, done.stderr)
        # The MPI must not do this wait, since its messages do not mention the pool.
        done = self.run_ranks(2, "-c", LATE.replace("(10)", "(10, complex)").format(wait="Wait(request)"),
                              environment=clean_environment(PENSTOCK_TIMEOUT_MS="500"))
        self.assertEqual(done.stdout.count("late: ok"), 2, done.stderr)
        self.assertIn("MPI_Wait waits on for 1 of 2 ranks", done.stderr)

    def test_on_one_node_are_the_mpis(self):
        done = self.run_ranks(2, PROGRAMS / "nonblocking_only.py", 3, nodes=1)
        self.assertEqual((done.stdout.count("nonblocking only: ok"), IN_POOL.format(2) in done.stderr), (2, False))

    def test_another_thread_frees_the_communicator(self):
        done = self.run_ranks(2, PROGRAMS / "nonblocking_freed.py", 700)
        self.assertEqual(done.stdout.count("freed: ok"), 2, done.stderr)

    def test_an_end_without_a_wait(self):
        done = self.run_ranks(2, "-c", NEVER_ASKED)
        self.assertEqual(done.stdout.count("never asked: ok"), 2, done.stderr)

    def test_long_wait_names_the_awaited(self):
        for wait, name in (("Wait(request)", "MPI_Wait"), ("Waitany([request])", "MPI_Waitany")):
            done = self.run_ranks(2, "-c", LATE.format(wait=wait),
                                  environment=clean_environment(PENSTOCK_TIMEOUT_MS="500"))
            self.assertEqual(done.stdout.count("late: ok"), 2, done.stderr)
            self.assertRegex(done.stderr, rf"{name} waits on for 1 of 2 ranks: rank 1 of the communicator")

    def death(self, way, ranks, mpi=None):
        folder = self.folder / f"{way}-{mpi}"
        folder.mkdir()
        mpiexec, python = (str(OTHER_VENVS[mpi] / "bin" / name) for name in ("mpiexec", "python")) if mpi else \
            (MPIEXEC, PYTHON)
        done = self.penstock("run", "--mpiexec", mpiexec, "-n", ranks, "--nodes", ranks, "--", python,
                             PROGRAMS / "nonblocking_death.py", way, folder, ranks, status=None)
        self.assertNotEqual(done.returncode, 0)
        called = "MPI_Allreduce_init" if way == "persistent" else "MPI_Iallreduce"
        for rank in (rank for rank in range(ranks) if rank != 1):
            told = (folder / str(rank)).read_text().splitlines()
            self.assertEqual(len(told), 5)
            for line in told:
                self.assertRegex(line, rf"{called}: rank 1 of the communicator, rank 1 \(pid \d+.*has died")

    def test_a_death_fails_all_that_is_outstanding(self):
        for way in ("wait", "waitall", "testall", "waitany", "persistent"):
            with self.subTest(way=way):
                self.death(way, 3)
        for mpi in self.each_mpi():
            if mpi is not None:
                self.death("waitall", 2, mpi)

    def fortran(self, interface, compiler, mpiexec, *options):
        if not os.access(compiler, os.X_OK) or not os.access("/usr/bin/gfortran", os.X_OK):
            self.skipTest(f"{compiler} or gfortran is absent: ci/install.sh mpis")
        program = self.folder / interface
        done = subprocess.run([compiler, "-w", "-fallow-argument-mismatch", f"-D{interface}", "-Wl,--no-as-needed",
                               *options, PROGRAMS / "nonblocking.F90", "-o", program, f"-J{self.folder}"],
                              capture_output=True, text=True, env=clean_environment(I_MPI_ROOT=OTHER_VENVS["intel"]))
        self.assertEqual(done.returncode, 0, done.stderr)
        environment = clean_environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", PENSTOCK_LOG="info")
        if str(mpiexec).endswith(".mpich"):
            # `penstock run` refuses Debian's MPICH, which is built without libfabric.
            done = subprocess.run([mpiexec, "-n", "2", "env", f"LD_PRELOAD={WINDOW_LIBRARY}", "PENSTOCK_NODES=2",
                                   f"PENSTOCK_POOL={self.pool()}", program],
                                  capture_output=True, text=True, timeout=60, env=environment)
        else:
            # The barriers of the program stay with the MPI, so IN_POOL is said of calls that do not block.
            environment["PENSTOCK_COLL"] = "nonblocking"
            done = self.penstock("run", "-n", 2, "--nodes", 2, "--mpiexec", mpiexec, "--", program, environment=environment)
        self.assertIn("nonblocking: ok", done.stdout, done.stdout + done.stderr)
        self.assertIn(IN_POOL.format(2), done.stderr)

    def test_of_mpichs_fortran(self):
        """Its mpi_f08 begins calls with MPI_* and waits for them with PMPI_*."""
        for interface, *more in (["MPIF_H"], ["USE_MPI_F08", "-DNO_INDEX"]):
            self.fortran(interface, "/usr/bin/mpif90.mpich", "/usr/bin/mpiexec.mpich", "-DPERSISTENT", *more)

    def test_of_intels_fortran(self):
        """Of its mpi_f08, which has no modules for gfortran and another .true., the entry points are named."""
        compiler, mpiexec = (OTHER_VENVS["intel"] / "bin" / name for name in ("mpif90", "mpiexec"))
        waits = ("Wait", "Waitall", "Waitany", "Waitsome", "Testsome", "Start", "Startall", "Request_free", "Ibarrier",
                 "Op_free")
        self.fortran("MPIF_H", compiler, mpiexec, "-DPERSISTENT")
        # The constants of mpi_f08 that stand for statuses are other variables.
        self.fortran("MPIF_H", compiler, mpiexec, "-DPERSISTENT", "-DMPI_STATUS_IGNORE=state",
                     "-DMPI_STATUSES_IGNORE=states", *(f"-DMPI_{name}=MPI_{name}_f08" for name in waits))

    def test_of_open_mpis_fortran(self):
        for interface in ("MPIF_H", "USE_MPI_F08"):
            self.fortran(interface, "/usr/bin/mpif90.openmpi", "/usr/bin/mpiexec.openmpi")


if __name__ == "__main__":
    unittest.main()
