"""penstock switch: jobs of real processes whose collectives a switch computes; its end, its death, two of them."""

import json
import os
import re
import signal

from support import PROGRAMS, clean_environment
from switches import ALWAYS, Switches

# Sums of reals in which the order shows, again and again; each rank says how far it is.
SUMS = """import sys, time
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
calls, count = int(sys.argv[1]), int(sys.argv[2])
rank_of = lambda r, call: np.random.default_rng(1000 * call + r).standard_normal(count).astype("f4")
for early in range(8):  # the first calls of a communicator are the MPI's, in an order of its own
    world.Allreduce(np.ones(count, "i4"), np.zeros(count, "i4"))
for call in range(calls):
    got = np.zeros(count, "f4")
    world.Allreduce(rank_of(world.rank, call), got)
    wanted = rank_of(0, call)
    for r in range(1, world.size):
        wanted = wanted + rank_of(r, call)
    assert got.tobytes() == wanted.tobytes(), f"call {call} of rank {world.rank}"
    if world.rank == 0:
        print(f"call {call}", flush=True)
print("sums: ok", flush=True)
"""
# The last call of rank 1 is for more than that of rank 0.
OTHER_SIZES = """import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
for early in range(8):
    world.Barrier()
data, more, n = np.zeros(900), np.zeros(900), 600 + 100 * world.rank
world.{call}
"""

# Rank 1 comes late to its last call.
LATE = """import sys, time
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
for call in range(12):
    if call == 11 and world.rank == 1:
        time.sleep(float(sys.argv[1]))
    got = np.zeros(500)
    world.Allreduce(np.full(500, world.rank + call + 0.5), got)
    assert (got == world.size * (call + 0.5) + world.size * (world.size - 1) / 2).all()
print("late: ok", flush=True)
"""
# More communicators at once than a process may ask a switch to serve; then none, and some more.
MANY = """import time
import numpy as np
from mpi4py import MPI
world = MPI.COMM_WORLD
def call_all(comms):
    for comm in comms:
        for call in range(12):  # the first are the MPI's
            got = np.zeros(300)
            comm.Allreduce(np.full(300, comm.rank + 1.5), got)
            assert (got == comm.size * (comm.size + 2) / 2).all()
many = [world.Dup() for _ in range(20)]
call_all(many)
for comm in many:
    comm.Free()
for times in range(10):  # the switch lets go of them
    world.Barrier()
    time.sleep(0.1)
    call_all([world.Dup()])
print("many: ok", flush=True)
"""


class SwitchTest(Switches):
    def program(self, text):
        path = self.folder / "program.py"
        path.write_text(text)
        return path

    def test_switch_does_not_await_missing_ranks(self):
        spec = self.pool("128M")
        switch = self.play(spec, "--missing-after", 0.5)
        done = self.penstock(*self.job(spec, 2, 2, self.program(LATE), 3), environment=clean_environment(**ALWAYS))
        self.assertEqual(done.stdout.count("late: ok"), 2, done.stdout)
        self.assertRegex(done.stderr, r"goes on without the switch: it says of rank 1 .*: rank missing")
        facts = self.end_of(switch)
        self.assertGreater(facts["chunks"], 0)
        self.assertEqual(facts["failures"], 1)

    def test_who_waits_for_the_switch_names_it(self):
        spec = self.pool("128M")
        switch = self.play(spec)
        job = self.start(*self.job(spec, 2, 2, self.program(SUMS), 400, 3000), environment=clean_environment(**ALWAYS))
        self.wait_for_call(job)
        switch.send_signal(signal.SIGSTOP)
        says = f'MPI_Allreduce: waits for the switch, "penstock" (pid {switch.pid} '
        self.wait_for(lambda: says in self.penstock("ps", spec).stdout, "the switch in ps")
        switch.send_signal(signal.SIGCONT)
        out, _ = job.communicate(timeout=120)
        self.assertEqual(job.returncode, 0, out)
        self.assertEqual(out.count("sums: ok"), 2, out)
        self.assertNotIn("goes on without", out)

    def test_more_communicators_than_a_process_may_register(self):
        spec = self.pool("512M")
        switch = self.play(spec)
        done = self.penstock(*self.job(spec, 2, 2, self.program(MANY)), environment=clean_environment(**ALWAYS))
        self.assertEqual(done.stdout.count("many: ok"), 2, done.stdout)
        said = [line for line in done.stderr.splitlines() if "room for no more" in line]
        self.assertGreaterEqual(len(said), 1, done.stderr)
        self.assertIn("has made 8 communicators that a switch serves", said[0])
        self.assertIn("go through the plain pool", said[0])
        self.assertGreater(self.end_of(switch)["communicators"], 8)  # places of those that were freed are used again

    def test_collectives_of_all_kinds(self):
        for mode in "software", "simulated":
            spec = self.pool("256M", mode)
            switch = self.play(spec)
            done = self.penstock(*self.job(spec, 3, 3, PROGRAMS / "collectives.py", 11, 60),
                                 environment=clean_environment(**ALWAYS), timeout=200)
            self.assertEqual(done.stdout.count("collectives: ok: 60 calls"), 3, done.stdout)
            facts = self.end_of(switch)
            self.assertGreater(facts["chunks"], 5)
            self.assertEqual(facts["failures"], 0)

    def test_pools_table_chooses_the_calls(self):
        spec = self.pool("128M")
        table = self.folder / "table"
        table.write_text("allreduce ranks=any bytes=1024- two_shot switch=1\n")
        self.penstock("bench", "tune", "--pool", spec, "--import", table)
        switch = self.play(spec)
        program = self.folder / "sums.py"
        program.write_text(SUMS)
        for count in 8, 1000:
            self.penstock(*self.job(spec, 2, 2, program, 20, count), environment=clean_environment())
        self.assertGreaterEqual(self.end_of(switch)["chunks"], 20)

    def test_job_survives_its_death_and_end(self):
        for number in signal.SIGKILL, signal.SIGTERM:
            spec = self.pool("128M")
            switch = self.play(spec)
            program = self.folder / "sums.py"
            program.write_text(SUMS)
            job = self.start(*self.job(spec, 3, 3, program, 400, 3000), environment=clean_environment(**ALWAYS))
            self.wait_for_call(job)
            switch.send_signal(number)
            out, _ = job.communicate(timeout=120)
            self.assertEqual(job.returncode, 0, out)
            self.assertEqual(out.count("sums: ok"), 3, out)
            self.assertRegex(out, r"goes on without the switch: .*pid \d+")
            # A new one takes its place, and serves the next job.
            switch.communicate(timeout=100)
            again = self.play(spec)
            self.penstock(*self.job(spec, 2, 2, program, 10, 100), environment=clean_environment(**ALWAYS))
            self.assertGreaterEqual(self.end_of(again)["chunks"], 10)

    def test_a_rank_that_is_killed_is_named(self):
        spec = self.pool("128M")
        switch = self.play(spec)
        program = self.folder / "sums.py"
        program.write_text(SUMS)
        job = self.start(*self.job(spec, 3, 3, program, 100000, 3000), environment=clean_environment(**ALWAYS))
        self.wait_for_call(job)
        ranks = [r for r in json.loads(self.penstock("ps", spec, "--json").stdout) if r["rank"] == 1]
        os.kill(ranks[0]["pid"], signal.SIGKILL)
        out, _ = job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0)
        self.assertRegex(out, r"rank 1 .*(died|killed)")
        self.assertIsNone(switch.poll())
        self.end_of(switch)

    def test_stopped_switch_is_named_and_left(self):
        spec = self.pool("64M")
        switch = self.play(spec)
        program = self.folder / "sums.py"
        program.write_text(SUMS)
        job = self.start(*self.job(spec, 2, 2, program, 3000, 3000),
                         environment=clean_environment(**ALWAYS, PENSTOCK_TIMEOUT_MS="1000"))
        self.wait_for_call(job)
        switch.send_signal(signal.SIGSTOP)
        try:
            out, _ = job.communicate(timeout=100)
        finally:
            switch.send_signal(signal.SIGCONT)
        self.assertEqual(job.returncode, 0, out)
        self.assertEqual(out.count("sums: ok"), 2, out)
        self.assertRegex(out, rf"goes on without the switch: .*pid {switch.pid} .*has not answered in 1000 ms")

    def test_ranks_with_different_sizes_are_told(self):
        spec = self.pool("64M")
        self.play(spec)
        for call, says in (("Bcast([data, n, MPI.DOUBLE], 0)", "rank 0 .* disagree about how much is sent"),
                           ("Allreduce([data, n, MPI.DOUBLE], [more, n, MPI.DOUBLE])", "rank 1 .* is another than that of rank 0")):
            done = self.penstock(*self.job(spec, 2, 2, "-c", OTHER_SIZES.format(call=call)),
                                 environment=clean_environment(**ALWAYS), status=None)
            # The ranks' own comparison may be first.
            self.assertRegex(done.stderr, rf"{says}|rank [01] .* calls (.+?) of (\d+) .*, and this rank \1 of (?!\2 )\d+ ")

    def test_a_pool_has_one_switch(self):
        spec = self.pool("64M")
        switch = self.play(spec)
        self.refused("switch", spec, says=["has a switch already", f"pid {switch.pid}"], fix="SIGTERM")
        switch.kill()
        switch.wait()
        self.end_of(self.play(spec))  # the dead one's place is free

    def test_without_one_jobs_say_so_and_run(self):
        spec = self.pool("64M")
        program = self.folder / "sums.py"
        program.write_text(SUMS)
        done = self.penstock(*self.job(spec, 2, 2, program, 3, 10), environment=clean_environment(**ALWAYS))
        self.assertIn("no switch serves pool", done.stderr)
        self.assertIn("penstock switch", done.stderr)
        self.assertEqual(done.stdout.count("sums: ok"), 2)
        self.refused(*self.job(spec, 2, 2, program, 3, 10), says="PENSTOCK_COLL_SWITCH is 'alway'", fix="PENSTOCK_COLL_SWITCH=always",
                     status=2, environment=clean_environment(PENSTOCK_COLL_SWITCH="alway"))

    def test_sixteen_ranks_below_two_leaves(self):
        spec = self.pool("512M")
        switches = self.tree(spec)
        done = self.penstock(*self.job(spec, 16, 4, PROGRAMS / "collectives.py", 5, 25),
                             environment=clean_environment(**ALWAYS), timeout=220)
        self.assertEqual(done.stdout.count("collectives: ok: 25 calls"), 16, done.stdout + done.stderr)
        facts = [self.end_of(switch) for switch in switches]
        self.assertTrue(all(each["chunks"] > 0 and each["failures"] == 0 for each in facts), facts)

    def test_job_survives_a_killed_leaf_or_spine(self):
        for number in range(3):
            spec = self.pool("256M")
            switches = self.tree(spec)
            program = self.folder / "sums.py"
            program.write_text(SUMS)
            job = self.start(*self.job(spec, 4, 4, program, 300, 3000), environment=clean_environment(**ALWAYS))
            self.wait_for_call(job)
            switches[number].kill()
            out, _ = job.communicate(timeout=120)
            self.assertEqual(job.returncode, 0, out)
            self.assertEqual(out.count("sums: ok"), 4, out)

    def test_switches_that_do_not_fit(self):
        spec = self.pool("64M")
        self.play(spec, "--leaves", 2)
        self.refused("switch", spec, "--leaves", 3, "--leaf", 0, says=["leaf 0 of 3", "spine of 2 leaves"],
                     fix="the same number of leaves")
        self.refused("switch", spec, "--leaves", 2, says="has a switch already")
        self.refused("switch", spec, "--leaf", 2, "--leaves", 2, says="leaves count from 0", fix="--leaves", status=2)

    def test_wrong_input(self):
        self.refused("switch", "shm:there-is-none", says="there-is-none", fix="penstock pool create")
        for seconds in "-1", "nan", "soon":
            wrong = self.penstock("switch", "shm:x", "--missing-after", seconds, status=2)
            self.assertIn("--missing-after", wrong.stderr)
        nothing = self.penstock("switch", status=2)
        self.assertTrue(re.search("penstock switch SPEC", nothing.stderr))
