"""Whole jobs that guard against faults of earlier systems of this kind."""

import os
import signal
import unittest

from support import PROGRAMS, PYTHON, Case, job_processes_of


class Regression(Case):
    def test_probe_from_a_named_remote_source(self):
        """Guards against: MPI_Probe from a named remote source hangs."""
        for ranks, nodes in ((2, 2), (4, 2)):
            done = self.penstock("run", "-n", ranks, "--nodes", nodes, "--", PYTHON,
                                 PROGRAMS / "probe.py")
            self.assertIn("probe: ok", done.stdout)

    def test_another_rank_count_after_a_killed_job(self):
        """Guards against a hang after a killed job with another rank count. The whole job dies, including
        the launcher, so that no process cleans up."""
        spec = self.pool("128M", "software")
        for ranks, next_ranks in ((4, 2), (2, 5)):
            job = self.start("run", "-n", ranks, "--nodes", "2", "--pool", spec, "--", PYTHON,
                             PROGRAMS / "busy.py", "collectives", start_new_session=True)
            self.assertIn("all there", job.stdout.readline())
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
            self.wait_for(lambda: not job_processes_of(job.pid), "the ranks to be gone as well")
            done = self.penstock("run", "-n", next_ranks, "--nodes", "2", "--pool", spec, "--", PYTHON,
                                 PROGRAMS / "all_to_all.py")
            self.assertIn("all to all: ok", done.stdout)

    def test_two_jobs_on_two_pools_at_once(self):
        """Guards against: path and size of the pool compiled in."""
        pools = [self.pool("64M", "software"), self.pool("96M", "hardware")]
        jobs = [self.start("run", "-n", "2", "--pool", spec, "--", PYTHON, PROGRAMS / "all_to_all.py")
                for spec in pools]
        for job in jobs:
            output, _ = job.communicate(timeout=100)
            self.assertIn("all to all: ok", output)
            self.assertEqual(job.returncode, 0, output)


if __name__ == "__main__":
    unittest.main()
