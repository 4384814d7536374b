#!/usr/bin/env python3
"""A step above its share, one without a share and one that did not run are errors, and nothing else is."""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import budget

ROOT = Path(budget.__file__).resolve().parents[1]


class BudgetTest(unittest.TestCase):
    def errors(self, spent, shares="10 make test\n4 make check  # here\n", unit_s=2.0):
        return budget.verdicts(budget.shares(shares), spent, unit_s)[1]

    def test_times_of_bash_are_understood(self):
        self.assertAlmostEqual(budget.seconds_of("61m2.500s 0m1.250s"), 3663.75)

    def test_up_to_one_and_a_half_passes(self):
        self.assertEqual(self.errors({"make test": 30.0, "make check": 0.1}), [])

    def test_more_fails(self):
        (error,) = self.errors({"make test": 32.0, "make check": 8})
        for part in ("make test used 32 s", "1.6 times its share of 20 s", "'16 make test'"):
            self.assertIn(part, error)

    def test_a_slower_machine_passes(self):
        self.assertEqual(self.errors({"make test": 60.0, "make check": 8}, unit_s=4.0), [])

    def test_a_step_without_a_share_fails(self):
        (error,) = self.errors({"make test": 20, "make check": 8, "make new": 6})
        self.assertIn("add the line '3 make new'", error)

    def test_a_step_that_did_not_run_fails(self):
        (error,) = self.errors({"make test": 20})
        self.assertIn("make check has a share in ci/budget.txt, but did not run", error)

    def test_the_budget_names_the_steps_of_ci(self):
        script = (ROOT / ".ci/run").read_text()
        steps = {" ".join(line.split()[-2:]) for line in re.findall(r"^ *step (.*)$", script, re.M) if "ci/install.sh" not in line}
        self.assertEqual(set(budget.shares(budget.BUDGET.read_text())), steps | {"the installs"})

    def test_the_script_fails_by_its_status(self):
        steps = budget.shares(budget.BUDGET.read_text())
        for minutes, status in (("0", 0), ("9000", 1)):
            with self.subTest(minutes=minutes), tempfile.NamedTemporaryFile("w") as spent:
                spent.write("".join(f"{step}\t{minutes}m1.000s 0m0.500s\n" for step in steps))
                spent.flush()
                done = subprocess.run([sys.executable, ROOT / "ci/budget.py", "check", spent.name, "2.9", "3.1"],
                                      capture_output=True, text=True)
                self.assertEqual(done.returncode, status, done.stdout + done.stderr)
                self.assertIn("a unit is 3.00 s", done.stdout)


if __name__ == "__main__":
    unittest.main()
