"""A rank that dies is named, the job ends, and the next job on the same pool runs."""

import json
import os
import signal
import subprocess
import unittest

from support import HEAT, MPIEXEC, PROGRAMS, PYTHON, VENV, Case, clean_environment


class Crash(Case):
    def ranks(self, spec):
        records = json.loads(self.penstock("ps", "--json", spec).stdout)
        return {record["rank"]: record for record in records if record["alive"]}

    def start_job(self, spec, count):
        job = self.start("run", "-n", count, "--nodes", "2", "--pool", spec, "--", PYTHON,
                         PROGRAMS / "wait.py")
        self.assertIn("all there", job.stdout.readline())
        return job, self.ranks(spec)

    def run_heat(self, spec, count):
        done = self.penstock("run", "-n", count, "--nodes", "2", "--pool", spec, "--", PYTHON, HEAT,
                             "--points", "60", "--steps", "50")
        self.assertIn(f"heat: ok: {count} ranks", done.stdout)

    def kill_a_rank(self, mode, victim):
        spec = self.pool("128M", mode)
        job, ranks = self.start_job(spec, 4)
        self.assertEqual(sorted(ranks), [0, 1, 2, 3])
        self.assertEqual(len({record["node"] for record in ranks.values()}), 2)
        pid = ranks[victim]["pid"]
        os.kill(pid, signal.SIGKILL)
        output, _ = job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0, output)
        node = ranks[victim]["emulated_node"]
        self.assertEqual(node, victim // 2, "ranks are dealt to nodes in blocks")
        self.assertIn(f"penstock run: rank {victim} (pid {pid}, emulated node {node}) ", output)
        self.assertIn("without finalizing", output)
        # Another number of ranks, on the same pool, right away.
        self.run_heat(spec, 2)
        self.run_heat(spec, 3)

    def test_killed_rank_in_software_mode(self):
        self.kill_a_rank("software", 2)

    def test_killed_rank_in_hardware_mode(self):
        self.kill_a_rank("hardware", 0)

    def test_rank_that_leaves_without_finalizing(self):
        program = ("from mpi4py import MPI; import os\n"
                   "c = MPI.COMM_WORLD; c.Barrier()\n"
                   "if c.rank == 1: os._exit(3)\n"
                   "c.Barrier()")
        done = self.penstock("run", "-n", "2", "--nodes", "2", "--", PYTHON, "-c", program, status=None)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("rank 1 (pid", done.stderr)

    def test_communicators_without_the_dead_go_on(self):
        spec = self.pool("64M", "software")
        exports = self.penstock("env", "--mpi", "mpich", "--mpiexec", MPIEXEC, "--pool", spec, "--nodes", "3").stdout
        job = f"{exports}\nexec {MPIEXEC} -disable-auto-cleanup -n 3 {PYTHON} {PROGRAMS / 'any_source.py'}"
        done = subprocess.run(["bash", "-c", job], capture_output=True, text=True, timeout=100,
                              env=clean_environment())
        said = f"status {done.returncode}\n{done.stdout}\n{done.stderr}"
        self.assertIn("goes on without the dead", done.stdout, said)
        self.assertNotIn("hears of the dead", done.stdout, said)
        self.assertRegex(done.stderr, r"rank 2 \(pid \d+ .*died", said)
        self.assertNotEqual(done.returncode, 0, said)

    def test_launcher_that_never_ends_is_ended(self):
        """A faulty launcher may not exit after its ranks."""
        (self.folder / "bin").mkdir()
        (self.folder / "lib").symlink_to(VENV / "lib")
        mpiexec = self.folder / "bin/mpiexec"
        mpiexec.write_text(f'#!/bin/sh\n{MPIEXEC} "$@"\n[ "$1" = --version ] || exec sleep 1000\n')
        mpiexec.chmod(0o755)
        program = "from mpi4py import MPI; import os; MPI.COMM_WORLD.Barrier(); os._exit(3)"
        done = self.penstock("run", "-n", "2", "--mpiexec", mpiexec, "--", PYTHON, "-c", program,
                             status=None)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("without finalizing MPI; the job was ended", done.stderr)

    def test_whole_job_killed_and_collected(self):
        spec = self.pool("128M", "software")
        self.run_heat(spec, 4)
        before = self.info(spec)["bytes_used"]
        job, ranks = self.start_job(spec, 3)
        for record in ranks.values():
            os.kill(record["pid"], signal.SIGKILL)
        job.communicate(timeout=60)
        self.penstock("pool", "gc", spec, "--yes")
        info = self.info(spec)
        self.assertEqual((info["alive"], info["dead"]), (0, 0))
        self.run_heat(spec, 4)
        self.penstock("pool", "gc", spec, "--yes")
        self.assertEqual(self.info(spec)["bytes_used"], before)


if __name__ == "__main__":
    unittest.main()
