"""Whole jobs on a pool without coherence: penstock run --mode simulated."""

import json
import os
import signal
import unittest
from pathlib import Path

from support import (HEAT, PENSTOCK, PROGRAMS, PYTHON, SHM, Case, clean_environment,
                     job_processes_of, temporary_pools_of)

LIBRARY = Path(PENSTOCK).resolve().parents[1] / "lib/libpenstock.so"


def caches_of(spec):
    name = "penstock." + spec.removeprefix("shm:")
    return sorted(path.name for path in SHM.iterdir()
                  if path.name.startswith(name + ".node") and path.name.endswith(".cache"))


class Simulated(Case):
    def run_simulated(self, ranks, nodes, *command, status=0, **variables):
        return self.penstock("run", "--mode", "simulated", "-n", ranks, "--nodes", nodes, "--stats",
                             "--", PYTHON, *command, status=status, timeout=200,
                             environment=clean_environment(**variables))

    def assert_carried(self, done, ranks, nodes):
        self.assertIn("transport: penstock, simulated coherence", done.stderr)
        self.assertIn(f"{ranks} ranks on {nodes} nodes", done.stderr)
        self.assertNotIn(" sent 0 messages", done.stderr)

    def test_two_nodes(self):
        job = self.start("run", "--mode", "simulated", "-n", "2", "--nodes", "2", "--", PYTHON,
                         PROGRAMS / "exchange.py", "10")
        output, _ = job.communicate(timeout=200)
        self.assertEqual(job.returncode, 0, output)
        self.assertIn("exchange: ok", output)
        self.assertEqual(temporary_pools_of(job.pid), [], "the pool and its nodes' caches")

    def test_three_nodes_of_two_ranks(self):
        done = self.run_simulated(6, 3, PROGRAMS / "all_to_all.py")
        self.assertIn("all to all: ok", done.stdout)
        self.assert_carried(done, 6, 3)

    def test_a_given_temperament(self):
        done = self.run_simulated(2, 2, PROGRAMS / "exchange.py", "3", PENSTOCK_SIM_SEED="7",
                                  PENSTOCK_SIM_FAULTS="evict=0,prefetch=0,deliver=50,max_delay=2000",
                                  PENSTOCK_LOG="info")
        self.assertIn("exchange: ok", done.stdout)
        self.assertIn("simulated mode, node 1,", done.stderr)
        self.assertIn("seed 7, faults deliver=50,evict=0,", done.stderr)

    def test_canary_missing_invalidations_are_noticed(self):
        done = self.run_simulated(2, 2, PROGRAMS / "exchange.py", "20", status=None,
                                  PENSTOCK_SIM_BREAK="invalidate=2", PENSTOCK_LOG="info")
        self.assertNotEqual(done.returncode, 0, "the job did not notice")
        self.assertIn("simulated mode, node", done.stderr)
        self.assertNotIn("PENSTOCK_SIM_BREAK is", done.stderr)
        self.assertNotIn("exchange: ok", done.stdout)

    def test_memory_of_users(self):
        done = self.run_simulated(2, 2, PROGRAMS / "pool_buffers.py", LIBRARY)
        self.assertIn("pool buffers: ok", done.stdout)

    def test_killed_rank_then_another_number_of_ranks(self):
        spec = self.pool("128M", "simulated")
        job = self.start("run", "-n", "4", "--nodes", "2", "--pool", spec, "--", PYTHON,
                         PROGRAMS / "wait.py")
        self.assertIn("all there", job.stdout.readline())
        records = json.loads(self.penstock("ps", "--json", spec).stdout)
        ranks = {record["rank"]: record for record in records if record["alive"]}
        self.assertEqual(sorted(ranks), [0, 1, 2, 3])
        os.kill(ranks[2]["pid"], signal.SIGKILL)
        output, _ = job.communicate(timeout=100)
        self.assertNotEqual(job.returncode, 0, output)
        # The launcher may have ended the others before the command looked.
        self.assertRegex(output, "without finalizing MPI(, as were all: .*)?; the job was ended")
        done = self.penstock("run", "-n", "3", "--nodes", "3", "--pool", spec, "--", PYTHON, HEAT,
                             "--points", "30", "--steps", "10")
        self.assertIn("heat: ok: 3 ranks", done.stdout)
        # The command's own node and three emulated ones.
        self.assertEqual(len(caches_of(spec)), 4)
        self.penstock("pool", "ls", spec)
        self.penstock("pool", "gc", spec, "--yes")
        info = self.info(spec)
        self.assertEqual((info["mode"], info["alive"], info["dead"]), ("simulated", 0, 0))
        self.assertLessEqual(len(caches_of(spec)), 1)
        self.penstock("pool", "rm", spec)
        self.assertEqual(caches_of(spec), [])

    def test_nothing_is_left_of_a_killed_run(self):
        job = self.start("run", "--mode", "simulated", "-n", "2", "--nodes", "2", "--", PYTHON,
                         PROGRAMS / "wait.py")
        self.assertIn("all there", job.stdout.readline())
        self.assertTrue(any(name.endswith(".cache") for name in temporary_pools_of(job.pid)))
        job.kill()
        self.wait_for(lambda: not job_processes_of(job.pid), "the job to end")
        self.wait_for(lambda: not temporary_pools_of(job.pid), "pool and caches to go")

    def test_mode_must_be_the_pools(self):
        spec = self.pool("64M", "software")
        self.refused("run", "-n", "2", "--pool", spec, "--mode", "simulated", "--", PYTHON, "-c",
                     "pass", says=["software mode", "simulated"], fix="penstock pool create")


if __name__ == "__main__":
    unittest.main()
