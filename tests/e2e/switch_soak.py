#!/usr/bin/env python3
"""Random collectives of many ranks through a spine and two leaves (programs/switch_calls.py), with fresh seeds; then the
spine, a leaf and a rank are killed in the midst of a job.

    tests/e2e/switch_soak.py                     # 16 ranks on 4 nodes, a minute, and a quarter for each death
    tests/e2e/switch_soak.py --seed 7            # the draws of a run that failed, again
    tests/e2e/switch_soak.py --short --seed 1    # 4 ranks, some calls: always the same
"""

import argparse
import json
import os
import random
import signal
import sys
import unittest

from support import PROGRAMS, clean_environment
from switches import ALWAYS, Switches

NODES, MANY, LONG = 4, 1_000_000, 3600


class SwitchSoak(Switches):
    options = None

    def calls(self, spec, draw, seconds, short_calls=60):
        """Starts a job, and tells what it is. A short one ends after its calls, however slow the machine is."""
        ranks, calls = (4, short_calls) if self.options.short else (16, MANY)
        seconds = LONG if self.options.short else seconds
        seed = draw.randrange(1 << 30)
        print(f"switch soak: {self.id().split('.')[-1]}: {ranks} ranks, seed {seed}", flush=True)
        return self.start(*self.job(spec, ranks, NODES, PROGRAMS / "switch_calls.py", seed, calls, seconds),
                          environment=clean_environment(**ALWAYS)), ranks

    def outcome(self, job, seconds):
        out, _ = job.communicate(timeout=240 + 4 * seconds)
        return job.returncode, out

    def draws(self):
        return random.Random(f"{self.options.seed} {self.id()}")

    def test_nobody_dies(self):
        seconds = 60 * self.options.minutes
        spec = self.pool("512M")
        switches = self.tree(spec)
        job, ranks = self.calls(spec, self.draws(), seconds)
        status, out = self.outcome(job, seconds)
        self.assertEqual(status, 0, out)
        self.assertEqual(out.count("switch calls: ok"), ranks, out)
        self.assertNotIn("goes on without", out)
        facts = [self.end_of(switch) for switch in switches]
        self.assertTrue(all(each["chunks"] > 0 and each["failures"] == 0 for each in facts), facts)
        print(f"switch soak: {facts[0]['chunks']} chunks of {facts[0]['communicators']} communicators", flush=True)

    def killed_in_the_midst(self, choose):
        """`choose`: of the switches and the job's ranks, whom. Gives the job's end and the switches."""
        draw, seconds = self.draws(), 15 * self.options.minutes
        spec = self.pool("512M")
        switches = self.tree(spec)
        job, ranks = self.calls(spec, draw, seconds, short_calls=400)  # not over before somebody has died
        self.wait_for_call(job, 5 * draw.randrange(1, 5))
        os.kill(choose(draw, spec, switches), signal.SIGKILL)
        status, out = self.outcome(job, seconds)
        return status, out, ranks, switches

    def completes_without(self, choose):
        status, out, ranks, _ = self.killed_in_the_midst(choose)
        self.assertEqual(status, 0, out)
        self.assertEqual(out.count("switch calls: ok"), ranks, out)
        self.assertRegex(out, r"goes on without the switch: .*pid \d+")

    def test_the_spine_dies(self):
        self.completes_without(lambda draw, spec, switches: switches[0].pid)

    def test_a_leaf_dies(self):
        self.completes_without(lambda draw, spec, switches: switches[draw.randrange(1, 3)].pid)

    def test_a_rank_dies(self):
        def a_rank(draw, spec, switches):
            ranks = [r for r in json.loads(self.penstock("ps", spec, "--json").stdout) if r["rank"] >= 0]
            chosen.append(draw.choice(sorted(ranks, key=lambda r: r["rank"])))
            return chosen[0]["pid"]

        chosen = []
        status, out, _, switches = self.killed_in_the_midst(a_rank)
        self.assertNotEqual(status, 0, out)
        self.assertRegex(out, rf"rank {chosen[0]['rank']} .*(died|killed)")
        for switch in switches:
            self.assertIsNone(switch.poll())
            self.end_of(switch)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1, help="of the job in which nobody dies")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--short", action="store_true")
    SwitchSoak.options = parser.parse_args()
    result = unittest.TextTestRunner(stream=sys.stdout).run(unittest.defaultTestLoader.loadTestsFromTestCase(SwitchSoak))
    print(f"switch soak: --seed {SwitchSoak.options.seed}")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
