"""penstock bench tune: a table of plans, kept in a pool, that jobs go by. What is chosen, never how fast it is."""

import os
import signal
import unittest
from pathlib import Path

from support import MPIEXEC, PENSTOCK, PYTHON, SHM, Case, clean_environment

ENTRY = r"^(all|[a-z_]+) ranks=\S+ bytes=\S+ \w+"
BUILT_IN = ["barrier ranks=17- bytes=any leaders", "all ranks=any bytes=any eager", "allreduce ranks=3- bytes=any two_shot",
            "allreduce ranks=1-2 bytes=65536- two_shot", "all ranks=any bytes=any one_shot"]
TABLE = "allreduce ranks=2 bytes=0-100 one_shot\nbroadcast ranks=any bytes=any one_shot chunk=4096\n"
JOB = """import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
for elements in (1, 1000, 100_000):
    got = np.zeros(elements)
    for call in range(4):
        world.Allreduce(np.full(elements, world.rank + 1.0), got)
        assert (got == world.size * (world.size + 1) / 2).all()
        data = np.full(elements, float(world.rank))
        world.Bcast(data, call % world.size)
        assert (data == call % world.size).all()
print("job: ok", flush=True)
"""
# The pool's table is replaced between two communicators.
REPLACED = """import subprocess, sys
import numpy as np
from mpi4py import MPI
world, one, got = MPI.COMM_WORLD, np.ones(1), np.zeros(1)
for turn in range(3):
    comm = world.Dup()
    for call in range(5):
        comm.Allreduce(one, got)
        assert got[0] == comm.size
    if world.rank == 0:
        subprocess.run([sys.argv[1], "bench", "tune", "--pool", sys.argv[2], "--import", sys.argv[3 + turn % 2]],
                       check=True, stdout=subprocess.DEVNULL)
    world.Barrier()
    for call in range(5):
        comm.Allreduce(one, got)
    comm.Free()
print("replaced: ok", flush=True)
"""


class Tuning(Case):
    def lines(self, spec):
        done = self.penstock("bench", "tune", "--pool", spec, "--print")
        head, *entries = done.stdout.splitlines()
        self.assertTrue(head.startswith("# "), head)
        return head, entries

    def write(self, text, name="table"):
        path = self.folder / name
        path.write_text(text)
        return path

    def job(self, spec, program=JOB, *arguments, ranks=2, **variables):
        done = self.penstock("run", "--mpiexec", MPIEXEC, "-n", ranks, "--nodes", 2, "--pool", spec, "--", PYTHON, "-m",
                             "mpi4py", "-c", program, *arguments,
                             environment=clean_environment(PENSTOCK_LOG="info", **variables))
        self.assertEqual(done.stdout.count(": ok"), ranks, done.stderr)
        return done.stderr

    def test_measures_keeps_and_prints(self):
        spec = self.pool("128M")
        done = self.penstock("bench", "tune", "--quick", "--ranks", "2", "--force", "--pool", spec,
                             "--export", self.folder / "out", timeout=200)
        for name in ("barrier", "allreduce", "alltoall", "exscan"):
            self.assertRegex(done.stdout, rf"(?m)^{name} +2 ")
        self.assertRegex(done.stdout, rf"kept in pool {spec}: \d+ entr")
        self.assertIn("measuring 2 ranks", done.stderr)
        head, entries = self.lines(spec)
        self.assertIn("measured ", head)
        for entry in entries:
            self.assertRegex(entry, ENTRY)
            self.assertIn("ranks=2 ", entry)
        self.assertEqual((self.folder / "out").read_text().splitlines()[1:], entries)
        self.assertIn("tuning table: measured ", self.job(spec))
        listed = self.penstock("pool", "ls", "--all", spec).stdout
        self.assertIn("penstock.coll.tuning", listed)
        self.assertNotIn("penstock.tune.", listed)

    def test_measures_nodes_of_several_ranks(self):
        spec = self.pool("256M")
        done = self.penstock("bench", "tune", "--quick", "--ranks", "4", "--ranks-per-node", "1,2", "--force", "--pool", spec,
                             timeout=200)
        self.assertRegex(done.stdout, r"(?m)^allgather +4 +2 ")
        self.assertRegex(done.stdout, r"(?m)^allgather +4 +1 ")
        self.assertIn("measuring 4 ranks, 2 on a node", done.stderr)
        for entry in self.lines(spec)[1]:
            self.assertRegex(entry, r"^[a-z_]+ ranks=4-7 bytes=\S+ per-node=(1|2-) ")
        self.refused("bench", "tune", "--ranks", "2", "--ranks-per-node", "2", "--force",
                     says="leave no second node", fix="--ranks-per-node", status=2)

    def test_job_uses_its_ranks_per_node(self):
        spec = self.pool("128M")
        table = "all per-node=2- two_level chunks=3; broadcast per-node=2 one_shot turns=1; all per-node=1 leaders"
        self.penstock("bench", "tune", "--pool", spec, "--import", self.write(table))
        self.assertIn("per-node=2- two_level chunks=3", self.lines(spec)[1][0])
        for plan in ("", "form=slots"):
            told = self.job(spec, ranks=4, PENSTOCK_COLL_PLAN=plan)
            self.assertIn("tuning table: imported", told)
            self.assertEqual("PENSTOCK_COLL_PLAN: form=slots" in told, plan != "")

    def test_killed_rank_ends_the_measurement(self):
        process = self.start("bench", "tune", "--ranks", "2", "--force")
        name = f"penstock-bench-{process.pid}"
        self.wait_for(lambda: len(self.children(process.pid)) == 2, "the ranks")
        os.kill(self.children(process.pid)[1], signal.SIGKILL)
        self.assertEqual(process.wait(60), 1)
        self.assertIn("rank", process.stdout.read())
        self.assertEqual([path for path in SHM.iterdir() if name in path.name], [])

    @staticmethod
    def children(pid):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]

    def test_without_a_pool_keeps_nothing(self):
        done = self.penstock("bench", "tune", "--quick", "--ranks", "2", "--force", timeout=200)
        self.assertIn("nothing is kept: this was a temporary pool", done.stdout)
        self.assertEqual([path for path in SHM.iterdir() if f"penstock-bench-{done.pid}" in path.name], [])

    def test_import_replace_and_reset(self):
        spec = self.pool("64M")
        head, entries = self.lines(spec)
        self.assertIn(f"built in (pool {spec} has none)", head)
        self.assertEqual(entries, BUILT_IN)
        self.penstock("bench", "tune", "--pool", spec, "--import", self.write("# mine\n" + TABLE))
        head, entries = self.lines(spec)
        self.assertIn("imported", head)
        self.assertEqual(entries, TABLE.splitlines())
        self.assertIn("tuning table: imported", self.job(spec))
        self.penstock("bench", "tune", "--pool", spec, "--reset")
        self.assertEqual(self.lines(spec)[1], BUILT_IN)
        self.assertIn("tuning table: built in", self.job(spec))

    def test_the_environment_comes_first(self):
        spec = self.pool("64M")
        self.penstock("bench", "tune", "--pool", spec, "--import", self.write(TABLE))
        self.assertIn("table: PENSTOCK_COLL_TUNING", self.job(spec, PENSTOCK_COLL_TUNING=self.write(TABLE)))
        self.assertIn("table: PENSTOCK_COLL_TUNING", self.job(spec, PENSTOCK_COLL_TUNING="all one_shot chunk=4K; all eager"))
        self.assertIn("table: built in", self.job(spec, PENSTOCK_COLL_TUNING="default"))
        told = self.job(spec, PENSTOCK_COLL_TUNING=self.write("all eager\nallreduce ranks=2 two_shoot\n"))
        self.assertIn("line 2: \"two_shoot\" is no plan (did you mean two_shot?)", told)
        self.assertIn("table: built in", told)
        told = self.job(spec, PENSTOCK_COLL_TUNING=self.folder / "absent")
        self.assertIn("there is no such file", told)

    def test_is_replaced_while_a_job_runs(self):
        spec = self.pool("128M")
        tables = [self.write(TABLE, "one"), self.write("all one_shot chunk=8K\n", "two")]
        told = self.job(spec, REPLACED, PENSTOCK, spec, *tables)
        self.assertIn("tuning table: built in", told)
        self.assertIn("tuning table: imported", told)

    def test_what_is_wrong_is_said(self):
        spec = self.pool("64M")
        tune = ("bench", "tune", "--pool", spec)
        self.refused(*tune, "--import", self.write("alreduce eager\n"),
                     says=["line 1: \"alreduce\" is no collective", "did you mean allreduce?"])
        self.refused(*tune, "--import", self.folder / "absent", says="there is no file")
        self.refused("bench", "tune", "--pool", "shm:e2e-absent", "--print", says="e2e-absent")
        self.refused("bench", "tune", "--reset", says="none is named", fix="--pool SPEC", status=2)
        many = (os.cpu_count() or 1) + 1
        if many <= 64:
            self.refused(*tune, "--ranks", many, says=f"{many} ranks on", fix="--force")
        for ranks in ("0", "1", "two", "65"):
            done = self.penstock(*tune, "--ranks", ranks, status=None)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("--ranks", done.stderr)
        self.assertEqual(self.lines(spec)[1], BUILT_IN)

    def test_an_interruption_cleans_up(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process = self.start("bench", "tune", "--ranks", "2", "--force")
            name = f"penstock-bench-{process.pid}"
            self.wait_for(lambda: any(name in path.name for path in SHM.iterdir()), "a temporary pool")
            process.send_signal(number)
            self.assertEqual(process.wait(60), 1)
            self.assertIn(f"interrupted by signal {int(number)}", process.stdout.read())
            self.assertEqual([path for path in SHM.iterdir() if name in path.name], [])


if __name__ == "__main__":
    unittest.main()
