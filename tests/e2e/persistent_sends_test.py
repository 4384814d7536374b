"""Debian's Open MPI: persistent sends of data that begin behind their buffer, which it alone gets wrong over libfabric."""

import os
import subprocess
import unittest

from support import PROGRAMS, Case, clean_environment

COMPILER, MPIEXEC = "/usr/bin/mpicc.openmpi", "/usr/bin/mpiexec.openmpi"


class PersistentSends(Case):
    def setUp(self):
        super().setUp()
        for needed in (COMPILER, MPIEXEC):
            if not os.access(needed, os.X_OK):
                self.skipTest(f"{needed} is absent: ci/install.sh mpis")
        self.program = self.folder / "late_pieces"
        subprocess.run([COMPILER, "-O1", "-Wall", "-Werror", PROGRAMS / "late_pieces.c", "-o", self.program], check=True,
                       env=clean_environment())

    def test_send_what_the_type_names(self):
        for ranks in (2, 4):  # MPI_Alltoallv makes such sends from four ranks on
            with self.subTest(ranks=ranks):
                done = self.penstock("run", "--mpiexec", MPIEXEC, "-n", ranks, "--nodes", 2, "--", self.program)
                self.assertIn(f"late pieces: ok: {ranks} ranks", done.stdout)


if __name__ == "__main__":
    unittest.main()
