"""gfortran's coarrays with OpenCoarrays on incoherent nodes: plain loads find data that others put before an event."""

import os
import subprocess
import unittest
from pathlib import Path

from support import PROGRAMS, Case, clean_environment

COMPILER, MPIEXEC = "/usr/bin/mpif90.openmpi", "/usr/bin/mpiexec.openmpi"
FOLDERS = sorted(Path("/usr/lib").glob("*/open-coarrays/openmpi/lib"))


class Coarrays(Case):
    def setUp(self):
        super().setUp()
        for needed in (COMPILER, MPIEXEC):
            if not os.access(needed, os.X_OK):
                self.skipTest(f"{needed} is absent: ci/install.sh mpis")
        if not FOLDERS:
            self.skipTest("OpenCoarrays is absent: ci/install.sh mpis (libcoarrays-openmpi-dev)")

    def compiled(self, *linked):
        program = self.folder / "coarrays"
        done = subprocess.run([COMPILER, "-fcoarray=lib", "-O1", PROGRAMS / "coarrays.f90", "-o", program, *linked],
                              capture_output=True, text=True, env=clean_environment())
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def static(self):
        """Links as OpenCoarrays' own compiler wrapper does."""
        return self.compiled(FOLDERS[0] / "libcaf_openmpi.a")

    def shared(self):
        return self.compiled(f"-L{FOLDERS[0]}", "-lcaf_openmpi")

    def run_images(self, program, images, mode):
        done = self.penstock("run", "--mpiexec", MPIEXEC, "-n", images, "--nodes", 2, "--mode", mode, "--", program)
        self.assertRegex(done.stdout, rf"coarrays: ok: +{images} images", done.stdout + done.stderr)

    def test_find_what_was_put_between_nodes(self):
        self.run_images(self.static(), 3, "simulated")

    def test_are_recognized_by_their_shared_library(self):
        self.run_images(self.shared(), 2, "simulated")

    def test_are_recognized_in_a_stripped_program(self):
        program = self.static()
        subprocess.run(["strip", program], check=True)
        self.run_images(program, 2, "simulated")

    def test_in_software_mode(self):
        self.run_images(self.static(), 4, "software")

    def test_without_penstock(self):
        """Checks that the MPI's own windows fulfil the program's expectations."""
        done = subprocess.run([MPIEXEC, "--oversubscribe", "-n", "2", self.static()], capture_output=True, text=True, timeout=100,
                              env=clean_environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
        self.assertRegex(done.stdout, r"coarrays: ok: +2 images", done.stderr)


if __name__ == "__main__":
    unittest.main()
