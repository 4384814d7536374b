"""penstock doctor coherence: two processes act as two hosts, on coherent and on incoherent memory."""

import json
import os
import signal
import unittest

from support import Case, clean_environment

LASTING = "evict=0,prefetch=0,drop_early=0,keep=1000"


class Coherence(Case):
    def sides(self, spec, *arguments, second=("--node", "1"), **variables):
        """Runs both sides; returns their exit status and lines. The first side is emulated node 0."""
        environment = clean_environment(**variables)
        first = self.start("doctor", "coherence", spec, "--node", "0", *arguments,
                           environment=environment)
        self.assertIn("on the other host run: penstock doctor coherence " + spec,
                      first.stdout.readline())
        other = self.penstock("doctor", "coherence", spec, *second, *arguments, status=None,
                              environment=environment)
        output, _ = first.communicate(timeout=60)
        return (first.returncode, output), (other.returncode, other.stderr + other.stdout)

    def assert_said(self, sides, status, *parts):
        for returned, output in sides:
            self.assertEqual(returned, status, output)
            for part in parts:
                self.assertIn(part, output)

    def assert_nothing_left(self, spec):
        self.assertEqual(json.loads(self.penstock("pool", "ls", "--json", spec).stdout), [])
        self.assertEqual(self.info(spec)["alive"], 0)

    def test_one_host_says_nothing_about_others(self):
        for mode in ("software", "hardware"):
            spec = self.pool("16M", mode)
            sides = self.sides(spec, "--rounds", "100")
            self.assert_said(sides, 0, "coherent: plain loads", "emulated node 0", "emulated node 1",
                             "same host", "this says nothing about other hosts")
            self.assertIn("100 rounds each way", sides[1][1])
            self.assert_nothing_left(spec)

    def test_json_is_all_there_is(self):
        spec = self.pool("16M", "software")
        first = self.start("doctor", "coherence", spec, "--node", "0", "--rounds", "20")
        self.assertIn("waiting", first.stdout.readline())
        facts = json.loads(self.penstock("doctor", "coherence", spec, "--node", "1", "--json").stdout)
        self.assertEqual((facts["ok"], facts["memory"], facts["same_host"], facts["rounds"]), (True, "coherent", True, 20))
        self.assertEqual([side["node"] for side in facts["between"]], [0, 1])
        self.assertTrue(all(trial["right"] > 0 for trial in facts["trials"]), facts)
        self.assertIn("both sides ran on the same host", " ".join(f["what"] for f in facts["findings"]))

    def test_nodes_without_coherence_need_software(self):
        spec = self.pool("16M", "simulated")
        sides = self.sides(spec, "--rounds", "40", PENSTOCK_SIM_FAULTS=LASTING)
        self.assert_said(sides, 0, "not coherent: lines pass with write-back by the writer and "
                         "invalidation by the reader", "a device like this needs --mode software")
        self.assert_nothing_left(spec)

    def test_without_coherence_under_every_fault_model(self):
        spec = self.pool("16M", "simulated")
        self.assert_said(self.sides(spec, "--rounds", "40"), 0, "not coherent: lines pass with")

    def test_words_that_destroy_their_neighbours(self):
        spec = self.pool("16M", "simulated")
        sides = self.sides(spec, "--rounds", "200", PENSTOCK_SIM_FAULTS="whole_line_words=1")
        self.assert_said(sides, 1, "words that two hosts publish into one line", "mailbox")

    def test_node_by_variable(self):
        spec = self.pool("16M")
        environment = clean_environment(PENSTOCK_NODE="3")
        first = self.start("doctor", "coherence", spec, "--rounds", "5", environment=environment)
        self.assertIn("waiting", first.stdout.readline())
        self.penstock("doctor", "coherence", spec)
        output, _ = first.communicate(timeout=60)
        self.assertIn("emulated node 3", output)
        self.assertIn("5 rounds each way", output)

    def test_nobody_comes(self):
        spec = self.pool("16M")
        self.refused("doctor", "coherence", spec, "--timeout", "1", says="the other side",
                     fix=f"penstock doctor coherence {spec}")
        self.assert_nothing_left(spec)
        error = self.refused("doctor", "coherence", self.pool("16M", "hardware"), "--timeout", "1",
                             says="hardware mode")
        self.assertIn("software mode", error)

    def test_the_other_side_is_killed(self):
        spec = self.pool("16M")
        for signal_of_first in (False, True):
            first = self.start("doctor", "coherence", spec, "--rounds", "1000000", "--node", "0")
            self.assertIn("waiting", first.stdout.readline())
            second = self.start("doctor", "coherence", spec, "--node", "1")
            self.assertIn("between", first.stdout.readline())
            dies, lives = (first, second) if signal_of_first else (second, first)
            os.kill(dies.pid, signal.SIGKILL)
            output, _ = lives.communicate(timeout=60)
            self.assertEqual(lives.returncode, 1, output)
            self.assertIn(f"pid {dies.pid} on host", output)
            self.assertIn("died or gave up", output)
            self.penstock("pool", "gc", spec, "--yes")
            self.assert_nothing_left(spec)

    def test_what_cannot_be_asked_for(self):
        self.refused("doctor", "coherence", "shm:no-such-pool-of-the-tests", says="is absent",
                     fix="penstock pool create")
        file = self.folder / "file"
        file.write_bytes(b"somebody's" * 10000)
        self.refused("doctor", "coherence", file, says="is not a Penstock pool",
                     fix="penstock pool create")
        self.assertEqual(file.read_bytes(), b"somebody's" * 10000)
        spec = self.pool("16M")
        self.refused("doctor", "coherence", spec, says="PENSTOCK_NODE", status=2,
                     environment=clean_environment(PENSTOCK_NODE="one"))
        for option, value in (("--timeout", "0"), ("--rounds", "-1"), ("--node", "first")):
            done = self.penstock("doctor", "coherence", spec, option, value, status=2)
            self.assertIn(option, done.stderr)


if __name__ == "__main__":
    unittest.main()
