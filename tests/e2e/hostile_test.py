"""Another process writes garbage into the pool of a running job."""
import mmap
import os
import random
import struct
import time
import unittest
from pathlib import Path

from support import PROGRAMS, PYTHON, SHM, Case, clean_environment, temporary_pools_of

PAGE = 4096


def used_pages(file):
    """Offsets of the pages that contain data."""
    pages, at = [], 0
    while True:
        try:
            begin = os.lseek(file, at, os.SEEK_DATA)
        except OSError:
            return pages
        at = os.lseek(file, begin, os.SEEK_HOLE)
        pages += range(begin, at, PAGE)


class WildWriter(Case):
    def job_with_words_written(self, seed, rounds):
        """Runs a job while words are overwritten; it must end. Returns its output."""
        environment = clean_environment(PENSTOCK_TIMEOUT_MS="2000")
        job = self.start("run", "-n", "4", "--nodes", "2", "--", PYTHON, PROGRAMS / "talk.py", "5",
                         environment=environment)
        self.assertIn("all there", job.stdout.readline())
        (pool,) = temporary_pools_of(job.pid)
        draw = random.Random(seed)
        with open(SHM / pool, "r+b") as file:
            pages = used_pages(file.fileno())
            with mmap.mmap(file.fileno(), 0) as memory:
                for _ in range(rounds):
                    for _ in range(100):
                        at = draw.choice(pages) + 8 * draw.randrange(PAGE // 8)
                        memory[at:at + 8] = struct.pack("<Q", draw.getrandbits(64))
                    if job.poll() is not None:
                        break
                    time.sleep(0.01)
        output, _ = job.communicate(timeout=90)
        self.wait_for(lambda: not temporary_pools_of(job.pid), "the temporary pool is removed")
        return output

    def test_some_hundred_words(self):
        self.job_with_words_written(1, 3)

    def test_words_without_end(self):
        for seed in (2, 3):
            with self.subTest(seed=seed):
                self.job_with_words_written(seed, 300)


if __name__ == "__main__":
    unittest.main()
