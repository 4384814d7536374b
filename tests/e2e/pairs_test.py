"""Pair types in windows, with every call that accepts them: elements change atomically, and holes stay untouched."""

import os
import subprocess
import unittest

from support import OTHER_VENVS, PROGRAMS, VENV, Case, clean_environment

VENVS = {"mpich": VENV, **OTHER_VENVS}
LARGE_COUNTS = {"mpich", "intel"}


class Pairs(Case):
    def program(self, mpi):
        compiler = VENVS[mpi] / "bin/mpicc"
        if not os.access(compiler, os.X_OK):
            self.skipTest(f"{compiler} is absent: ci/install.sh mpis")
        large = ["-DWITH_LARGE_COUNTS"] if mpi in LARGE_COUNTS else []
        program = self.folder / "pairs"
        subprocess.run([compiler, "-O1", "-Wall", "-Wextra", "-DWITH_FORTRAN_TYPES", *large, PROGRAMS / "pairs.c",
                        "-o", program], check=True, env=clean_environment(I_MPI_ROOT=VENVS[mpi]))
        return program

    def hold(self, mpi, *options):
        done = self.penstock("run", "--mpiexec", VENVS[mpi] / "bin/mpiexec", "-n", 3, "--nodes", 3, *options, "--",
                             self.program(mpi), environment=clean_environment(PENSTOCK_LOG="info"))
        self.assertRegex(done.stdout, r"pairs: ok: \d types, 0 mistakes")
        in_pool = 0 if "--no-windows" in options else 3
        self.assertEqual(done.stderr.count("a window of 3 ranks lies in the pool"), in_pool)

    def test_software(self):
        self.hold("mpich", "--mode", "software")

    def test_hardware(self):
        self.hold("mpich", "--mode", "hardware")

    def test_simulated(self):
        self.hold("mpich", "--mode", "simulated")

    def test_windows_of_the_mpi(self):
        self.hold("mpich", "--no-windows")

    def test_openmpi(self):
        self.hold("openmpi")

    def test_intel(self):
        self.hold("intel")


if __name__ == "__main__":
    unittest.main()
