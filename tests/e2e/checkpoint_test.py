"""examples/checkpoint: a killed job continues with another number of ranks, and ends like an undisturbed one."""

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from support import MPIEXEC, PENSTOCK, PYTHON, SOURCE, Case, clean_environment, unique

PACKAGE = Path(PENSTOCK).parents[1] / "python"
KILL = SOURCE / "examples/checkpoint/kill_and_go_on.py"
ON_DISK = Path("/var/tmp")


class Checkpoint(Case):
    def setUp(self):
        super().setUp()
        if not os.access(PYTHON, os.X_OK) or not PACKAGE.is_dir():
            self.skipTest(f"{PYTHON} or {PACKAGE} is absent: ci/install.sh test")

    def goes_on(self, spec, launcher, *more):
        """Runs a series of killed jobs and returns their output."""
        folder = self.folder / "compare"
        folder.mkdir()
        done = subprocess.run([PYTHON, str(KILL), "--pool", spec, "--launcher", launcher, "--points", "64", "--steps",
                               "120", "--every", "6", "--compare", str(folder), *more],
                              capture_output=True, text=True, timeout=200, env=clean_environment(PYTHONPATH=PACKAGE))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("checkpoint: ok:", done.stdout)
        self.assertIn(f"to a file in {folder}", done.stdout)
        return done.stdout

    def test_killed_job_continues_with_other_ranks(self):
        with tempfile.TemporaryDirectory(dir=ON_DISK, prefix=unique("checkpoint")) as folder:
            said = self.goes_on(f"{folder}/pool", f"{MPIEXEC} -n {{ranks}}", "--kills", "2", "--ranks", "2", "1")
        self.assertIn("1 ranks were killed", said)

    def test_on_nodes_that_are_not_coherent(self):
        """Each job's ranks on two simulated nodes; those of the next job lie otherwise."""
        spec = self.pool("64M", "simulated", spec=f"{self.folder}/pool")
        self.goes_on(spec, f"{PENSTOCK} run --mode simulated --nodes 2 -n {{ranks}} --", "--kills", "1", "--ranks", "2",
                     "3")

    def test_pool_shows_what_is_persistent(self):
        with tempfile.TemporaryDirectory(dir=ON_DISK, prefix=unique("persist")) as folder:
            spec = self.pool("32M", spec=f"{folder}/pool")
            said = subprocess.run([PYTHON, "-c", f"""
import penstock.pool
with penstock.pool.attach({spec!r}) as pool:
    pool.create("kept", 100, lifetime="persistent" if pool.durability() != "none" else "pool")
    pool.create("other", 100)
    print(pool.durability())
"""], capture_output=True, text=True, env=clean_environment(PYTHONPATH=PACKAGE), check=True).stdout.strip()
            info = self.info(spec)
            self.assertEqual(info["durability"], said)
            self.assertEqual(info["objects_persistent"], 0 if said == "none" else 1)
            listed = self.penstock("pool", "ls", spec).stdout
            if said != "none":
                self.assertRegex(listed, r"kept .* persistent\n")
            self.assertRegex(listed, r"other .* pool\n")
            self.penstock("pool", "gc", spec, "--yes")
            self.assertIn("kept", self.penstock("pool", "ls", spec).stdout)
            if said == "none":
                return
            for lose in (("rm", spec), ("create", spec, "--size", "32M", "--overwrite")):
                refused = self.penstock("pool", *lose, status=None)
                self.assertNotEqual(refused.returncode, 0, lose)
                self.assertIn("keeps 1 persistent object", refused.stderr)
                self.assertIn(f"penstock pool rm {spec} --force", refused.stderr)
            self.assertIn("kept", self.penstock("pool", "ls", spec).stdout)
            self.penstock("pool", "rm", spec, "--force")


if __name__ == "__main__":
    unittest.main()
