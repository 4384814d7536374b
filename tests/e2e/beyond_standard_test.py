"""Reductions beyond the standard's table go through the pool with the MPI's own semantics; only the rest stay with the MPI."""

import os
import re
import unittest

from support import MPIEXEC, OTHER_VENVS, PROGRAMS, PYTHON, Case

STAYED = r"stayed with the MPI: {} (\d+) times: {}"
BY_TYPE = "a type, an operation or a size that the pool does not do"


class BeyondStandard(Case):
    def run_ranks(self, *command, mpi=None):
        mpiexec, python = (str(OTHER_VENVS[mpi] / "bin" / name) for name in ("mpiexec", "python")) if mpi else \
            (MPIEXEC, PYTHON)
        return self.penstock("run", "--stats", "--mpiexec", mpiexec, "-n", 2, "--nodes", 2, "--mode", "software", "--", python,
                             "-m", "mpi4py", *command)

    def test_the_pool_reduces_what_the_mpi_does(self):
        for mpi in (None, *OTHER_VENVS):
            if mpi is None or os.access(OTHER_VENVS[mpi] / "bin/mpiexec", os.X_OK):
                with self.subTest(mpi=mpi or "mpich"):
                    done = self.run_ranks(PROGRAMS / "beyond_standard.py", mpi=mpi)
                    refused = set(re.findall(r"beyond: ok, (\d+) refused", done.stdout))
                    self.assertEqual(len(refused), 1, done.stdout + done.stderr)
                    self.assertEqual(set(re.findall(STAYED.format("MPI_Allreduce", BY_TYPE), done.stderr)), refused, done.stderr)

    def test_stats_names_stayed_calls_and_reasons(self):
        program = """import numpy as np
from mpi4py import MPI
for call in range(5): MPI.COMM_WORLD.Barrier()
line = MPI.COMM_WORLD.Create_cart([2])
for call in range(3): line.Neighbor_allgather(np.zeros(1), np.zeros(2))
"""
        done = self.run_ranks("-c", program)
        self.assertRegex(done.stderr, STAYED.format("MPI_Neighbor_allgather", "the pool does not do this call").replace(r"(\d+)", "3"))
        self.assertRegex(done.stderr, STAYED.format("MPI_Barrier", "a communicator's first calls").replace(r"(\d+)", "2"))


if __name__ == "__main__":
    unittest.main()
