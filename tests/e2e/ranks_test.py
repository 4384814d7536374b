"""Jobs of many more processes than cores: they start, talk, wait and end, and the command shows them meanwhile."""

import json
import subprocess
import threading

from support import MPIEXEC, PENSTOCK, SOURCE, VENV, Case, clean_environment, job_processes_of

RANKS = SOURCE / "lab/bench/mpi/ranks.c"


class Job(Case):
    def setUp(self):
        super().setUp()
        self.program = self.folder / "ranks"
        subprocess.run([VENV / "bin/mpicc", "-O2", "-Wall", "-Wextra", "-Werror", RANKS, "-o", self.program], check=True,
                       env=clean_environment())

    def job(self, ranks, size, timeout, *options):
        """The program's output, and the command's output on its pool while the ranks waited."""
        spec = self.pool(size, "software", "--max-processes", 2 * ranks + 64)
        hold = self.folder / "hold"
        hold.touch()
        job = self.start("run", "--mpiexec", MPIEXEC, "-n", ranks, "--nodes", 4, "--pool", spec, "--", self.program, "--idle", 1,
                         "--hold", hold, "--pool", f"{PENSTOCK} pool info --json {spec}", *options)
        killer = threading.Timer(timeout, job.kill)
        killer.start()
        self.addCleanup(killer.cancel)
        said, looks = {}, {}
        for line in job.stdout:
            name, value = line.split() if len(line.split()) == 2 else (line, "nan")
            said[name] = float(value)
            if name == "waits":
                looks = {"processes": json.loads(self.penstock("ps", "--json", spec).stdout),
                         "table": self.penstock("ps", spec).stdout, "info": self.info(spec),
                         "traffic": json.loads(self.penstock("ps", "--traffic=1", "--json", spec).stdout)}
                hold.unlink()
        self.assertEqual(job.wait(60), 0, said)
        self.assertEqual(job_processes_of(job.pid), [])
        after = self.info(spec)
        self.assertEqual((after["alive"], after["dead"]), (0, 0))
        self.assertLess(after["bytes_used"], looks["info"]["bytes_used"])
        return said, looks

    def assert_whole(self, ranks, said, looks):
        for name in ("start_cpu_s", "barrier_cpu_us", "allreduce_cpu_us", "neighbours_cpu_us", "idle_cpu_s", "private_kB"):
            self.assertIn(name, said)
        self.assertEqual(said["ranks"], ranks)
        for rows in (looks["processes"], looks["traffic"]):
            self.assertEqual(sorted(row["rank"] for row in rows if row["rank"] >= 0), list(range(ranks)))
        self.assertEqual(len(looks["table"].splitlines()), ranks + 1, looks["table"][:2000])


class Ranks(Job):
    def test_64_processes(self):
        self.assert_whole(64, *self.job(64, "512M", 200, "--calls", 2, "--fences", 2))


class Large(Job):
    """make large, ctest -L large."""

    def test_512_processes(self):
        self.assert_whole(512, *self.job(512, "8G", 1500, "--calls", 1, "--fences", 1))
