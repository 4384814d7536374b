"""After killed MPI jobs, tests remove only their own files."""

import time
import unittest

from remains import SHM, remove_remains
from support import Case, unique


class Remains(Case):
    def segment(self):
        path = SHM / f"mpich_shm_{unique('remains')}"
        path.write_bytes(b"a")
        self.addCleanup(path.unlink, missing_ok=True)
        return path

    def test_files_of_dead_processes_go(self):
        before, since = self.segment(), time.time() + 1
        time.sleep(1.5)
        dead, held = self.segment(), self.segment()
        with held.open():
            remove_remains(since)
        self.assertEqual([path.exists() for path in (before, dead, held)], [True, False, True])


if __name__ == "__main__":
    unittest.main()
