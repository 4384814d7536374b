"""Programs for MPI_WIN_UNIFIED that announce puts by atomic operations find the data on nodes that are not coherent."""

import os
import unittest

from support import MPIEXEC, OTHER_VENVS, PROGRAMS, PYTHON, Case, clean_environment


class TwoWindows(Case):
    def find_what_was_put(self, how, mpi=None, **variables):
        mpiexec, python = (str(OTHER_VENVS[mpi] / "bin" / name) for name in ("mpiexec", "python")) if mpi else \
            (MPIEXEC, PYTHON)
        done = self.penstock("run", "--mpiexec", mpiexec, "-n", 2, "--nodes", 2, "--mode", "simulated", "--", python, "-m", "mpi4py",
                             PROGRAMS / "two_windows.py", how, environment=clean_environment(**variables))
        self.assertEqual(done.stdout.count("two windows: ok"), 2, done.stdout + done.stderr)
        return done

    def test_by_each_way_to_learn_of_them(self):
        for how in ("fetch", "compare", "own lock", "sync", "one window"):
            with self.subTest(how=how):
                self.assertIn("ok, False", self.find_what_was_put(how).stdout)

    def test_a_large_window_is_named(self):
        for megabytes, named in ((48, 0), (80, 1)):
            with self.subTest(megabytes=megabytes):
                done = self.penstock("run", "-n", 2, "--nodes", 2, "--size", "400M", "--", PYTHON, "-m", "mpi4py",
                                     PROGRAMS / "large_window.py", megabytes)
                self.assertEqual(done.stderr.count("are not ordered by atomic operations"), named, done.stderr)
                self.assertIn("large window: ok", done.stdout)

    def test_under_the_other_mpis(self):
        for mpi in OTHER_VENVS:
            if os.access(OTHER_VENVS[mpi] / "bin/mpiexec", os.X_OK):
                with self.subTest(mpi=mpi):
                    self.find_what_was_put("fetch", mpi=mpi)


if __name__ == "__main__":
    unittest.main()
