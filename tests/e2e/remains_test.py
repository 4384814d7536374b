"""After killed MPI jobs, tests remove only their own files."""

import time
import unittest
from unittest import mock

import remains
from support import Case, unique


class Remains(Case):
    def segment(self):
        path = self.folder / f"mpich_shm_{unique('remains')}"
        path.write_bytes(b"a")
        return path

    def test_files_of_dead_processes_go(self):
        before, since = self.segment(), time.time() + 1
        time.sleep(1.5)
        dead, held = self.segment(), self.segment()
        # A folder of its own: other tests remove remains too, at the same time.
        with held.open(), mock.patch.object(remains, "SHM", self.folder):
            remains.remove_remains(since)
        self.assertEqual([path.exists() for path in (before, dead, held)], [True, False, True])


if __name__ == "__main__":
    unittest.main()
