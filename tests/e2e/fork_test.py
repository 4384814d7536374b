"""Ranks that fork, however their children end."""

import unittest

from support import MPIEXEC, PROGRAMS, PYTHON, Case, clean_environment


class Forks(Case):
    def in_mode(self, mode):
        done = self.penstock("run", "--mpiexec", MPIEXEC, "-n", 2, "--nodes", 2, "--mode", mode, "--", PYTHON,
                             PROGRAMS / "forks.py", environment=clean_environment(PENSTOCK_LOG="info"))
        self.assertIn("forks: ok", done.stdout)
        self.assertIn("a window of 2 ranks lies in the pool", done.stderr)

    def test_software(self):
        self.in_mode("software")

    def test_hardware(self):
        self.in_mode("hardware")

    def test_simulated(self):
        self.in_mode("simulated")


if __name__ == "__main__":
    unittest.main()
