"""All ranks of a node die at once in the middle of a job: the node is named, and the next job on
the same pool, with another number of ranks, runs.

CRASH_SAMPLES=N moments each (default 2), TEST_SEED=N other ones."""

import contextlib
import json
import os
import random
import signal
import time
import unittest

from support import PROGRAMS, PYTHON, Case

SAMPLES = int(os.environ.get("CRASH_SAMPLES", "2"))
SEED = int(os.environ.get("TEST_SEED", "1"))


class NodeLoss(Case):
    def ranks(self, spec):
        records = json.loads(self.penstock("ps", "--json", spec).stdout)
        return [record for record in records if record["alive"]]

    def lose_a_node(self, spec, kind, node, after_s):
        job = self.start("run", "-n", "4", "--nodes", "2", "--pool", spec, "--", PYTHON,
                         PROGRAMS / "busy.py", kind)
        self.assertIn("all there", job.stdout.readline())
        lost = [record for record in self.ranks(spec) if record["emulated_node"] == node]
        self.assertEqual(sorted(record["rank"] for record in lost), [2 * node, 2 * node + 1])
        time.sleep(after_s)
        os.kill(lost[0]["pid"], signal.SIGKILL)
        for record in lost[1:]:
            with contextlib.suppress(ProcessLookupError):  # the launcher was quicker
                os.kill(record["pid"], signal.SIGKILL)
        output, _ = job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0, output)
        self.assertRegex(output, rf"rank [0-3] \(pid \d+, emulated node {node}\) ")

    def lose_nodes(self, kind):
        spec = self.pool("128M", "software")
        moments = random.Random(SEED)
        before = None
        survived = 0
        for sample in range(SAMPLES):
            with self.subTest(kind=kind, sample=sample, TEST_SEED=SEED):
                self.lose_a_node(spec, kind, moments.randrange(2), moments.uniform(0, 0.3))
                count = 2 + moments.randrange(2)
                done = self.penstock("run", "-n", count, "--nodes", "2", "--pool", spec, "--", PYTHON,
                                     PROGRAMS / "all_to_all.py")
                self.assertIn("all to all: ok", done.stdout)
                self.penstock("pool", "gc", spec, "--yes")
                info = self.info(spec)
                self.assertEqual((info["alive"], info["dead"]), (0, 0))
                before = before or info["bytes_used"]
                self.assertEqual(info["bytes_used"], before, "bytes of the pool in use")
                survived += 1
        print(f"crash points: node loss, {kind}: survived {survived} of {SAMPLES} tried, seed {SEED}")

    def test_small_messages(self):
        self.lose_nodes("small")

    def test_bulk(self):
        self.lose_nodes("bulk")

    def test_collectives(self):
        self.lose_nodes("collectives")


if __name__ == "__main__":
    unittest.main()
