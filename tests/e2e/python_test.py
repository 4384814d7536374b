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

    def test_values_that_do_not_fit_are_refused(self):
        pool = self.pool("64M")
        self.assertEqual(self.python(PROGRAMS / "python_border.py", PENSTOCK_POOL=pool), "border: ok\n")

    def ends(self, what, mode="software"):
        """Runs a case of python_ends.py, which must succeed and leave the pool. Returns its output."""
        pool = self.pool("128M", mode)
        done = subprocess.run([PYTHON, str(PROGRAMS / "python_ends.py"), what], capture_output=True, text=True, timeout=100,
                              env=clean_environment(PYTHONPATH=PACKAGE, PENSTOCK_POOL=pool))
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertEqual(self.info(pool)["alive"], 0)
        return done.stdout, pool

    def test_closing_ends_waits_of_other_threads(self):
        self.assertEqual(self.ends("close")[0], "close: ok\n")

    def test_waits_hear_ctrl_c(self):
        self.assertEqual(self.ends("ctrl_c")[0], "ctrl-c: ok\n")

    def test_a_forked_child_is_refused(self):
        self.assertEqual(self.ends("fork")[0], "fork: ok\n")
        self.assertEqual(self.ends("leave_with_block_in_child")[0], "leave: ok\n")

    def test_memory_stays_until_the_process_ends(self):
        for mode in ("software", "simulated"):
            with self.subTest(mode=mode):
                self.assertEqual(self.ends("at_exit", mode)[0], "late: (512, 1, 1)\n")
                self.assertEqual(self.ends("in_del", mode)[0], "del: 512\n")
                self.assertEqual(self.ends("daemons", mode)[0], "daemons: ok\n")

    def test_an_unclosed_pool_is_left_in_order(self):
        for mode in ("software", "simulated"):
            with self.subTest(mode=mode):
                pool = self.ends("leave_in_order", mode)[1]
                said = self.python("-c", """if True:
                    import penstock.pool
                    pool = penstock.pool.attach()
                    print(pool.collect(dry_run=True), [found.name for found in pool.objects() if "penstock." not in found.name])
                    stays = pool.open("stays")
                    stays.lock(2, 1).acquire()
                    print(stays.read(1, "i8", 1024))
                    """, PENSTOCK_POOL=pool)
                self.assertEqual(said, "(0, 0, 0) ['stays']\n[0]\n")

    def test_a_dead_participant_is_named(self):
        pool = self.pool("64M")
        self.assertEqual(self.python(PROGRAMS / "python_pool.py", "dead", PENSTOCK_POOL=pool), "dead: ok\n")


if __name__ == "__main__":
    unittest.main()
