"""What tests leave is found after them, and the test is named."""

import os
import subprocess
import time
from unittest import main, mock

import leftovers
import remains
from support import Case, unique


class Leftovers(Case):
    def setUp(self):
        super().setUp()
        self.record = self.folder / leftovers.RECORD
        self.now = time.time()
        self.record.write_text(f"{self.now - 9} begins a.B.test_c penstock-tmp-c penstock-e2e-c\n"
                               f"{self.now - 2} begins a.B.test_d penstock-tmp-d penstock-e2e-d\n"
                               f"{self.now - 1} ends a.B.test_d penstock-tmp-d penstock-e2e-d\n")
        self.tests = leftovers.Tests(self.record)

    def test_a_folder_is_found(self):
        (self.folder / "penstock-e2e-c").mkdir()
        self.assertEqual(list(leftovers.of_folder(self.folder, self.tests)),
                         [f"{self.folder}/penstock-e2e-c, of a.B.test_c"])

    def test_a_file_of_no_test_is_found(self):
        (self.folder / "a").touch()
        self.assertEqual(list(leftovers.of_folder(self.folder, self.tests)), [f"{self.folder}/a, of no end-to-end test"])

    def test_a_process_is_found(self):
        process = subprocess.Popen(["sleep", "100"], env={**os.environ, "TMPDIR": f"{self.folder}/penstock-tmp-d"})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        wanted = f"process {process.pid} (sleep 100), of a.B.test_d"
        self.wait_for(lambda: list(leftovers.of_folder(self.folder, self.tests)) == [wanted], wanted)

    def test_a_segment_is_found(self):
        names = [f"mpich_shm_{unique('leftovers')}", f"penstock.{unique('leftovers')}"]
        for name, age in zip(names, (1.5, 5)):
            (self.folder / name).touch()
            os.utime(self.folder / name, (self.now - age, self.now - age))
        with mock.patch.object(remains, "SHM", self.folder), mock.patch.object(leftovers, "SHARED", ((self.folder, ("penstock.",)),)):
            def found(age):
                said = leftovers.of_shared_folders(self.now - age, self.tests)
                return [each for each in said if each.startswith(str(self.folder))]
            self.assertEqual(found(10), [f"{self.folder}/{names[0]}, made when a.B.test_c and a.B.test_d ran",
                                         f"{self.folder}/{names[1]}, made when a.B.test_c ran"])
            self.assertEqual(found(3), [f"{self.folder}/{names[0]}, made when a.B.test_c and a.B.test_d ran"])


if __name__ == "__main__":
    main()
