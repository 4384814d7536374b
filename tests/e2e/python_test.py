"""penstock.pool from Python: its examples, arrays and tensors of two processes, what goes wrong."""

import os
import subprocess
import unittest

from support import PENSTOCK, PROGRAMS, SOURCE, Case, clean_environment

PYTHON = str(SOURCE / ".venv-torch/bin/python")
PACKAGE = os.path.join(os.path.dirname(os.path.dirname(PENSTOCK)), "python")
DOCTESTS = """
import doctest, importlib
for name in ("penstock", "penstock.pool", "penstock.persist"):
    print(name, doctest.testmod(importlib.import_module(name)))
"""


class Python(Case):
    def setUp(self):
        super().setUp()
        if not os.access(PYTHON, os.X_OK) or not os.path.isdir(PACKAGE):
            self.skipTest(f"{PYTHON} or {PACKAGE} is absent: ci/install.sh torch")

    def python(self, *arguments, **more):
        done = subprocess.run([PYTHON, *map(str, arguments)], capture_output=True, text=True, timeout=100,
                              env=clean_environment(PYTHONPATH=PACKAGE, **more))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_examples_of_the_docstrings(self):
        said = self.python("-c", DOCTESTS)
        self.assertRegex(said, r"penstock TestResults\(failed=0, attempted=[1-9]")
        self.assertRegex(said, r"penstock.pool TestResults\(failed=0, attempted=[1-9]")
        self.assertRegex(said, r"penstock.persist TestResults\(failed=0, attempted=[1-9]")

    def test_two_processes_on_one_object(self):
        """On two nodes without coherence: what is not published and observed would not be seen."""
        pool = self.pool("64M", "simulated")
        said = self.python(PROGRAMS / "python_pool.py", "two", PENSTOCK_POOL=pool)
        self.assertEqual(sorted(said.splitlines()), ["reader: ok", "writer: ok"])

    def test_what_goes_wrong(self):
        pool = self.pool("64M")
        said = self.python(PROGRAMS / "python_pool.py", "wrong", PENSTOCK_POOL=pool)
        self.assertEqual(said, "wrong: ok\n")
        self.assertEqual(self.info(pool)["alive"], 0)

    def test_what_goes_wrong_with_transactions(self):
        pool = self.pool("64M")
        self.assertEqual(self.python(PROGRAMS / "python_persist.py", PENSTOCK_POOL=pool), "persist: ok\n")

    def test_a_dead_participant_is_named(self):
        pool = self.pool("64M")
        self.assertEqual(self.python(PROGRAMS / "python_pool.py", "dead", PENSTOCK_POOL=pool), "dead: ok\n")


if __name__ == "__main__":
    unittest.main()
