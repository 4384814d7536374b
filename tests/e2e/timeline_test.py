"""penstock timeline: what ranks did when, of real jobs, of simulated ones, and of models."""

import json
import unittest
import xml.etree.ElementTree as ElementTree

from support import MPIEXEC, PYTHON, Case, clean_environment

JOB = """import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
half = world.Split(world.rank % 2)
for elements in (1, 100_000):
    got = np.zeros(elements)
    for call in range(12):  # the first ones are messages, until all have come to the pool
        world.Allreduce(np.full(elements, world.rank + 1.0), got)
    assert (got == world.size * (world.size + 1) / 2).all()
half.Free()
"""
STEPS = {"await_release", "publish", "ring", "wait", "copy", "move", "combine", "release"}
MOVES = {"publish", "copy", "combine", "move"}


class Timeline(Case):
    def traced(self, ranks, mode, *pool):
        """The folder that a job has filled."""
        folder = self.folder / f"trace-{mode}"
        folder.mkdir()
        spec = self.pool("256M", mode, *pool)
        environment = clean_environment(PENSTOCK_TRACE=folder)
        self.penstock("run", "-n", str(ranks), "--nodes", "2", "--pool", spec, "--mpiexec", MPIEXEC, "--", PYTHON, "-c", JOB,
                      environment=environment, timeout=200)
        return folder

    def checked(self, trace, ranks):
        """What Chrome's format demands; the events that are no names."""
        self.assertEqual(set(trace), {"displayTimeUnit", "otherData", "traceEvents"})
        named = {event["pid"] for event in trace["traceEvents"] if event["ph"] == "M" and event["name"] == "process_name"}
        spans = [event for event in trace["traceEvents"] if event["ph"] == "X"]
        self.assertEqual(len(spans) + sum(event["ph"] == "M" for event in trace["traceEvents"]), len(trace["traceEvents"]))
        last = {}
        for event in spans:
            self.assertIn(event["cat"], STEPS)
            self.assertGreaterEqual(event["ts"], 0)
            self.assertGreaterEqual(event["dur"], 0)
            self.assertIn(event["pid"], named)
            self.assertLess(event["args"]["rank"], ranks)
            track = (event["pid"], event["tid"])  # of one track none begins before the one before has ended
            if event["pid"] >= 1_000_000 or event["args"]["communicator"] >= 0:
                self.assertGreaterEqual(event["ts"] + 0.0011, last.get(track, 0), event)
                last[track] = event["ts"] + event["dur"]
        self.assertEqual(min(event["ts"] for event in spans), 0)
        self.assertEqual({event["pid"] for event in spans if event["pid"] < 1_000_000}, set(range(ranks)))
        return spans

    def test_of_a_job(self):
        folder = self.traced(2, "software")
        self.assertEqual(len(list(folder.iterdir())), 2)
        picture, trace = self.folder / "all.svg", self.folder / "all.json"
        said = self.penstock("timeline", folder, "--output", picture, "--output", trace).stdout
        self.assertIn("of 2 ranks", said)
        spans = self.checked(json.loads(trace.read_text()), 2)
        # The longer of the two: an allreduce of 800,000 bytes is cut into shares, half of them each rank's.
        published = sum(event["args"]["bytes"] for event in spans if event["cat"] == "publish" and event["pid"] < 1_000_000)
        self.assertGreaterEqual(published, 2 * 800_000 // 2)
        self.assertTrue(any(event["cat"] == "publish" and event["pid"] == 1_000_000 for event in spans))
        drawn = ElementTree.parse(picture).getroot()
        bars = [each for each in drawn.iter("{http://www.w3.org/2000/svg}rect") if len(each)]
        self.assertEqual(len(bars), len(spans))
        one = json.loads(self.penstock("timeline", folder, "--call", "1").stdout)
        self.assertTrue(all(event["args"]["call"] == 1 for event in one["traceEvents"] if event["ph"] == "X"))
        self.refused("timeline", folder, "--call", "999", says="has no collective 999: they count from 1, and the last is ")

    def test_of_a_simulated_job(self):
        folder = self.traced(2, "simulated")
        self.checked(json.loads(self.penstock("timeline", folder).stdout), 2)

    def test_of_a_model(self):
        picture, trace = self.folder / "model.svg", self.folder / "model.json"
        call = ["model", "collectives", "--collective", "allgather", "--nodes", "4", "--sizes", "1M"]
        self.penstock(*call, "--timeline", trace)
        spans = self.checked(json.loads(trace.read_text()), 4)
        devices = {event["pid"] for event in spans if event["pid"] >= 1_000_000}
        # Four ranks use four of the platform's six devices (docs/decisions/0046).
        self.assertEqual(devices, {1_000_000 + device for device in range(4)})
        self.penstock(*call, "--timeline", picture)
        self.assertIn("allgather of 4 ranks", picture.read_text())
        self.refused("model", "collectives", "--collective", "allgather", "--nodes", "2,4", "--sizes", "1M", "--timeline", trace,
                     says="--timeline shows one call, and 2 are modelled", status=2)

    def test_of_several_hosts(self):
        """Two hosts, whose clocks began at other times; one process is two ranks."""
        def leave(host, pid, monotonic, wall, dropped, spans):
            head = {"penstock_trace": 1, "host": host, "boot": host, "pid": pid, "monotonic_ns": monotonic, "wall_ns": wall,
                    "spans": len(spans), "dropped": dropped}
            lines = [head] + [{"begin_ns": begin, "end_ns": begin + 100, "step": "publish", "lane": "write", "rank": rank, "peer": rank,
                               "chunk": 0, "bytes": 64, "device": 0, "communicator": communicator, "number": 1}
                              for begin, rank, communicator in spans]
            (self.folder / f"trace.{host}.{pid}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))

        leave("one", 7, 1_000, 5_001_000, 3, [(500, 0, 9), (600, 1, 9), (900, 0, 4)])
        leave("two", 7, 90_000, 5_002_000, 0, [(89_000, 2, 9)])
        out = self.folder / "out.json"
        said = self.penstock("timeline", self.folder, "--output", out).stdout
        for words in ("4 spans of 3 ranks", "3 had no room", "of several hosts, by their wall clocks"):
            self.assertIn(words, said)
        spans = [event for event in json.loads(out.read_text())["traceEvents"] if event["ph"] == "X" and event["pid"] < 1_000_000]
        self.assertEqual([(event["pid"], event["ts"]) for event in spans], [(0, 0.0), (1, 0.1), (0, 0.4), (2, 0.5)])

    def test_refusals(self):
        self.refused("timeline", self.folder, says="holds no trace.*.jsonl", fix="PENSTOCK_TRACE=")
        (self.folder / "trace.here.1.jsonl").write_text('{"penstock_trace": 1, "host": "a"\n')
        self.refused("timeline", self.folder, says="trace.here.1.jsonl, line 1: is no trace of Penstock")
        (self.folder / "trace.here.1.jsonl").write_text('{"penstock_trace": 2}\n')
        self.refused("timeline", self.folder, says="this command knows version 1")
        # A job whose folder is gone says so, and does its work.
        done = self.penstock("run", "-n", "2", "--nodes", "2", "--mpiexec", MPIEXEC, "--", PYTHON, "-c", JOB,
                             environment=clean_environment(PENSTOCK_TRACE=self.folder / "absent"), timeout=200)
        self.assertIn("PENSTOCK_TRACE must name a folder of yours that exists", done.stderr)


if __name__ == "__main__":
    unittest.main()
