"""Ranks whose collective calls differ get an error that says which rank differs and how; calls that only seem to differ pass."""

import os
import unittest

from support import MPIEXEC, OTHER_VENVS, PROGRAMS, PYTHON, Case

NAMED = {
    "count": r"rank \d+ .* calls allreduce of \d float64 by sum, and this rank allreduce of \d float64 by sum",
    "long": r"calls allreduce of 10000\d float64 by sum, and this rank allreduce of 10000\d float64 by sum",
    "type": "calls allreduce of 4 float(32|64) by sum, and this rank allreduce of 4 float(32|64) by sum",
    "operation": "calls allreduce of 4 float64 by (sum|maximum), and this rank allreduce of 4 float64 by (sum|maximum)",
    "meaning": "another size, type or operation",
    "elsewhere": "makes a call that the pool cannot do, and this rank one that it can",
    "root": r"1 call ago called broadcast of 24 bytes with root \d, and this rank broadcast of 24 bytes with root \d",
    "gather": r"1 call ago called gather of 24 bytes with root \d, and this rank gather of 24 bytes with root \d",
    "broadcast": r"calls broadcast of \d+ bytes with root 0, and this rank broadcast of \d+ bytes with root 0",
    "alltoall": "calls alltoall of (8|16) bytes, and this rank alltoall of (8|16) bytes",
    "collective": "(calls|1 call ago called) (barrier|allreduce of 3 float64 by sum), and this rank",
}


class DifferentCalls(Case):
    def run_ranks(self, what, mpi=None, mode="software"):
        mpiexec, python = (str(OTHER_VENVS[mpi] / "bin" / name) for name in ("mpiexec", "python")) if mpi else \
            (MPIEXEC, PYTHON)
        return self.penstock("run", "--mpiexec", mpiexec, "-n", 2, "--nodes", 2, "--mode", mode, "--", python, "-m",
                             "mpi4py", PROGRAMS / "different_calls.py", what, status=None)

    def is_named(self, what, **how):
        done = self.run_ranks(what, **how)
        said = done.stdout + done.stderr
        self.assertRegex(done.stderr, NAMED[what], said)
        self.assertNotIn("done in silence", done.stdout, said)
        self.assertIn("told: True", done.stdout, said)

    def test_are_named(self):
        for what in NAMED:
            with self.subTest(what=what):
                self.is_named(what)

    def test_are_named_in_other_modes(self):
        for what, mode in (("count", "hardware"), ("root", "simulated"), ("long", "simulated")):
            with self.subTest(what=what, mode=mode):
                self.is_named(what, mode=mode)

    def test_are_named_under_the_other_mpis(self):
        for mpi in OTHER_VENVS:
            if os.access(OTHER_VENVS[mpi] / "bin/mpiexec", os.X_OK):
                for what in ("type", "meaning", "elsewhere"):
                    with self.subTest(mpi=mpi, what=what):
                        self.is_named(what, mpi=mpi)

    def test_matching_signatures_are_not_refused(self):
        for mpi in (None, *OTHER_VENVS):
            if mpi is None or os.access(OTHER_VENVS[mpi] / "bin/mpiexec", os.X_OK):
                with self.subTest(mpi=mpi or "mpich"):
                    done = self.run_ranks("same", mpi=mpi)
                    self.assertEqual(done.stdout.count("same: ok"), 2, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
