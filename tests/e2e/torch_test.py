"""PyTorch's process groups over a pool: right answers, training, what goes wrong."""

import functools
import json
import os
import re
import subprocess
import sys
import unittest

from matching_plans import matching_plan
from support import PENSTOCK, PROGRAMS, SOURCE, clean_environment, free_port, temporary_pools_of
from switches import ALWAYS, Switches
from torch_ranks import Forks

PYTHON = str(SOURCE / ".venv-torch/bin/python")
PACKAGE = os.path.join(os.path.dirname(os.path.dirname(PENSTOCK)), "python")


def torch_environment(**more):
    return clean_environment(PYTHONPATH=f"{PROGRAMS / 'noted'}:{PACKAGE}", OMP_NUM_THREADS=1, MASTER_ADDR="127.0.0.1", **more)


def has_torch():
    return os.access(PYTHON, os.X_OK) and os.path.isdir(PACKAGE)


def share_forks():
    """From now on, tests of this process and of its forks import torch once."""
    if has_torch():
        Forks.shared = Forks(PYTHON, PROGRAMS / "torch_forks.py", torch_environment())


class Torch(Switches):
    def setUp(self):
        super().setUp()
        if not has_torch():
            self.skipTest(f"{PYTHON} or {PACKAGE} is absent: ci/install.sh torch")
        self.noted = self.folder / "noted"  # the ids of this test's Python processes: noted/sitecustomize.py
        self.noted.mkdir()

    def environment(self, **more):
        return torch_environment(NOTED=self.noted, **more)

    def temporary_pools(self):
        """Temporary pools that processes of this test have made and left in /dev/shm."""
        processes = [noted.name for noted in self.noted.iterdir()]
        self.assertNotEqual(processes, [])
        return [pool for process in processes for pool in temporary_pools_of(process)]

    @functools.cached_property
    def forks(self):
        forks = Forks(PYTHON, PROGRAMS / "torch_forks.py", self.environment())
        self.addCleanup(forks.end)
        return forks

    def begin(self, number, program, *arguments, **more):
        """A job without a launcher: its ranks."""
        port = free_port(following=1)  # some programs make a second store at the next
        return [self.forks.begin(PROGRAMS / program, arguments, self.environment(RANK=rank, WORLD_SIZE=number, MASTER_PORT=port, **more))
                for rank in range(number)]

    def ranks(self, number, program, *arguments, timeout=100, **more):
        """What each rank of a job without a launcher prints, and its status."""
        return self.outcomes(self.begin(number, program, *arguments, **more), timeout)

    def lines(self, *arguments, **more):
        return sorted(line for _, out, _ in self.ranks(*arguments, **more) for line in out.splitlines()
                      if line.startswith("rank "))

    def test_collectives(self):
        for ranks, nodes in ((2, 1), (3, 2)):
            with self.subTest(ranks=ranks, nodes=nodes):
                for status, out, err in self.ranks(ranks, "torch_collectives.py", PENSTOCK_NODES=nodes):
                    self.assertEqual((status, out), (0, "collectives: ok\n"), err)

    def test_messages_match_as_planned(self):
        for bound in ("64M", "256K"):  # with the second one some are announced
            with self.subTest(bound=bound):
                plan = matching_plan(self, 3, 60, 5, any_source=True)
                for status, out, err in self.ranks(3, "matching.py", "torch", plan, PENSTOCK_NODES=2, PENSTOCK_UNEXPECTED_BYTES=bound):
                    self.assertEqual((status, out), (0, "matching: ok\n"), err)

    def test_habits(self):
        for ranks, what in ((2, "callbacks"), (4, "beside"), (2, "later"), (2, "timeouts"), (4, "groups")):
            with self.subTest(what=what):
                for status, out, err in self.ranks(ranks, "torch_habits.py", what, PENSTOCK_SIZE="256M"):
                    self.assertEqual((status, out), (0, "habits: ok\n"), err)

    def test_groups_without_long_calls_take_no_slots(self):
        for status, out, err in self.ranks(3, "torch_habits.py", "light_groups", PENSTOCK_POOL=self.pool("64M")):
            self.assertEqual((status, out), (0, "habits: ok\n"), err)

    def test_groups_again_in_a_lasting_store(self):
        done = subprocess.run([SOURCE / ".venv-torch/bin/torchrun", "--nproc-per-node", "2", "--master-port", str(free_port()),
                               PROGRAMS / "torch_habits.py", "again"], env=self.environment(), capture_output=True, text=True,
                              timeout=100)
        self.assertEqual((done.returncode, done.stdout.count("habits: ok")), (0, 2), done.stderr)

    def test_collectives_in_a_pool_that_is_named(self):
        pool = self.pool("256M", "simulated")
        for status, out, err in self.ranks(3, "torch_collectives.py", PENSTOCK_NODES=2, PENSTOCK_POOL=pool):
            self.assertEqual((status, out), (0, "collectives: ok\n"), err)
        listed = self.penstock("pool", "ls", "--all", pool).stdout
        self.assertNotIn("penstock.comm", listed)

    def test_training_gives_the_losses_of_gloo(self):
        found = []
        for backend in ("gloo", "penstock", "penstock"):
            done = self.ranks(4, "torch_training.py", backend, PENSTOCK_NODES=2)
            self.assertEqual([status for status, _, _ in done], [0] * 4, done)
            found.append(json.loads(done[0][1]))
        self.assertEqual(found[1], found[2], "two runs")
        for what, losses in found[0].items():
            for wanted, loss in zip(losses, found[1][what]):
                self.assertAlmostEqual(wanted, loss, delta=2e-3 if "float16" in what else 1e-5, msg=what)

    def test_what_stands_on_collectives(self):
        """FSDP of both kinds, checkpoints, tensor parallelism, ZeRO, functional collectives."""
        for status, out, err in self.ranks(3, "torch_features.py", "penstock", str(self.folder / "state"), PENSTOCK_NODES=2):
            self.assertEqual((status, out), (0, "features: ok\n"), err)

    def test_hugging_face_accelerate(self):
        if not list((SOURCE / ".venv-torch").glob("lib/*/site-packages/accelerate")):
            self.skipTest("accelerate is absent: ci/install.sh torch")
        for status, out, err in self.ranks(2, "torch_accelerate.py"):
            self.assertEqual((status, out), (0, "accelerate: ok\n"), err)

    def test_tensors_lie_in_the_pool(self):
        for ranks, more in ((2, {}), (3, {"PENSTOCK_NODES": 2})):
            for status, out, err in self.ranks(ranks, "torch_memory.py", "full", **more):
                self.assertEqual((status, out), (0, "memory: ok\n"), err)

    def digests(self, done):
        """What each rank says it got."""
        for status, _, err in done:
            self.assertEqual(status, 0, err)
        return [re.search(r"digest (\w+)", out).group(1) for _, out, _ in done]

    def test_switch_gives_the_plain_pools_bits(self):
        more = {"PENSTOCK_POOL": self.pool("256M", "simulated"), "PENSTOCK_NODES": 3}
        plain = self.digests(self.ranks(3, "torch_switch.py", "calls", **more))
        switch = self.play(more["PENSTOCK_POOL"])
        self.assertEqual(self.digests(self.ranks(3, "torch_switch.py", "calls", **more, **ALWAYS)), plain)
        facts = self.end_of(switch)
        self.assertEqual((facts["chunks"], facts["failures"]), (7 * 5, 0), facts)  # of each call one

    def test_training_goes_on_when_the_switch_dies(self):
        more = {"PENSTOCK_POOL": self.pool("256M"), "PENSTOCK_NODES": 2}
        plain = self.digests(self.ranks(2, "torch_switch.py", "training", **more))
        self.assertEqual(plain[0], plain[1])
        switch = self.play(more["PENSTOCK_POOL"])
        self.assertEqual(self.digests(self.ranks(2, "torch_switch.py", "training", **more, **ALWAYS)), plain)
        self.assertGreaterEqual(self.end_of(switch)["chunks"], 60)  # of each step one
        switch = self.play(more["PENSTOCK_POOL"])
        job = self.begin(2, "torch_switch.py", "training", **more, **ALWAYS)
        while (line := job[0].stdout.readline()) != "step 10\n":
            self.assertTrue(line, "no training")
        switch.kill()
        done = self.outcomes(job)
        self.assertEqual(self.digests(done), plain)
        self.assertIn("goes on without the switch", "".join(err for _, _, err in done))

    def test_calls_and_groups_end_quietly(self):
        """Whichever rank ends first, whatever Python has freed by then, and while other ranks do something else."""
        for ranks, what in ((3, ["third", "cross", "missing", "let_go", "again", "apart"]), (3, ["same_store"]),
                            (2, ["forked", "last_is_recv"])):
            self.ends_quietly(ranks, what)

    def test_calls_under_way_end_before_their_group(self):
        self.ends_quietly(3, ["flushed", "unmatched"])
        self.ends_quietly(2, ["in_callback"])

    def test_messages_outlive_their_sender(self):
        self.ends_quietly(2, ["outlived"])

    def test_ranks_meet_after_a_missed_meeting(self):
        self.ends_quietly(3, ["missed"])

    def ends_quietly(self, ranks, what):
        with self.subTest(what=what):
            for status, out, err in self.ranks(ranks, "torch_ends.py", *what):
                self.assertEqual((status, out), (0, "ends: ok\n"), err)
                self.assertNotIn("Exception raised from", err)

    def test_receive_from_any_fails_without_peers(self):
        (status, out, err), *_ = self.ranks(3, "torch_ends.py", "anybody")
        self.assertEqual((status, out), (0, "ends: ok\n"), err)

    def test_a_death_is_named(self):
        for line in (said := self.lines(3, "torch_failures.py", "dies")):
            self.assertRegex(line, r"after 0 s: DistBackendError: penstock: .* rank 1 \(pid \d+ on host .*died")
        self.assertEqual(len(said), 6)

    def test_ranks_outside_the_group_are_named(self):
        said = self.lines(3, "torch_failures.py", "absent")
        self.assertEqual(len(said), 1, said)
        self.assertIn("rank 0 of process group 0 has not come to its first collective (not in the group at all: ranks 0, 2)",
                      said[0])

    def test_end_of_the_store_is_told(self):
        for line in (said := self.lines(3, "torch_failures.py", "store_ends")):
            self.assertRegex(line, "DistBackendError: penstock: .*rank 0.* died")
        self.assertEqual(len(said), 2)

    def test_late_rank_is_named_and_group_renewed(self):
        said = self.lines(3, "torch_failures.py", "late")
        self.assertEqual([line for line in said if "again" in line], [f"rank {rank}: again: 3" for rank in range(3)])
        waited = [line for line in said if "has waited 3.0 s for 1 of 3 ranks: rank 1" in line]
        self.assertGreaterEqual(len(waited), 1, said)
        self.assertEqual(len([line for line in said if "DistBackendError" in line]), 3, said)

    def test_ranks_that_disagree_are_named(self):
        # A rank cannot guess a size that is much larger than its own.
        for what, words in (("size", "calls allreduce of 10 float32 by sum(, and this rank allreduce of 100000 float32| now)"),
                            ("type", "calls allreduce of 10 int32 by sum, and this rank allreduce of 10 float32"),
                            ("order", "calls broadcast of 36 bytes with root 0, and this rank allreduce of 9 float32")):
            for check in (0, 1):
                with self.subTest(what=what, check=check):
                    said = self.lines(3, "torch_failures.py", what, PENSTOCK_COLL_CHECK=check)
                    # Without the check a broadcast needs only the root and the ranks that receive.
                    told = 1 if what == "order" and not check else 3
                    self.assertGreaterEqual(len([line for line in said if "DistBackendError" in line]), told, said)
                    self.assertRegex("\n".join(said), words)

    def test_sizes_that_differ_are_named(self):
        for what, words in (("splits", r"all_to_all_single #2: rank 0 sends 12 bytes to rank 1, which expects 8:"),
                            ("lists", r"all_gather #2: rank 0 sends 8 bytes to rank 1, which expects 4:")):
            with self.subTest(what=what):
                said = self.lines(3, "torch_failures.py", what, PENSTOCK_COLL_CHECK=1)
                self.assertEqual(len(said), 3, said)
                for line in said:
                    self.assertRegex(line, "DistBackendError: penstock: " + words)

    def runs(self, command, **more):
        done = subprocess.run(command, capture_output=True, text=True, timeout=100, env=self.environment(**more))
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_processes_and_groups_come_and_go(self):
        program = str(PROGRAMS / "torch_processes.py")
        for what in ("spawn", "thread_ranks", "warned"):
            with self.subTest(what=what):
                self.assertEqual(self.runs([PYTHON, program, what]), f"{what}: ok\n")
        for what, ranks in (("threads", 2), ("again", 3), ("parts", 4)):
            with self.subTest(what=what):
                for status, out, err in self.ranks(ranks, program, what, str(self.folder / "met"), PENSTOCK_NODES=2):
                    self.assertEqual((status, out), (0, f"{what}: ok\n"), err)
        self.assertEqual(self.temporary_pools(), [])

    def test_memory_is_free_however_ranks_leave(self):
        pool = self.pool("256M", "software")
        used = []
        for order in ("upwards", "downwards", "upwards"):
            for status, out, err in self.ranks(3, "torch_processes.py", "apart", order, PENSTOCK_NODES=2, PENSTOCK_POOL=pool):
                self.assertEqual((status, out), (0, "apart: ok\n"), err)
            info = self.info(pool)
            self.assertEqual(info["quarantine"], [], info)
            used.append(info["bytes_used"])
        self.assertEqual(used, used[:1] * 3)
        listed = self.penstock("pool", "ls", "--all", pool).stdout
        self.assertNotIn("penstock.comm.", listed)

    def test_torchrun_restarts_after_a_death(self):
        torchrun = os.path.join(os.path.dirname(PYTHON), "torchrun")
        said = self.runs([torchrun, "--nproc-per-node", "3", "--max-restarts", "1", "--master-port", str(free_port()),
                          str(PROGRAMS / "torch_processes.py"), "elastic"])
        self.assertEqual(sorted(said.splitlines()), ["elastic: ok"] * 3 + ["life 1"])

    def test_who_is_stopped_is_named(self):
        said = self.lines(3, "torch_processes.py", "stopped")
        self.assertEqual(len(said), 2, said)
        self.assertTrue(any("has waited 3.0 s for 1 of 3 ranks: rank 1" in line for line in said), said)

    def test_a_full_pool_is_told(self):
        """The groups that there are go on working."""
        done = self.ranks(2, "torch_processes.py", "full", PENSTOCK_SIZE="16M")
        for status, out, err in done:
            self.assertEqual(status, 0, err)
            self.assertRegex(out, r"^rank \d: full after \d+: penstock: .*(no space for object|no room for it in the pool)")
            self.assertTrue(out.endswith("full: ok\n"), out)
        self.assertIn("PENSTOCK_SIZE=", done[0][1])

    def test_all_learn_of_a_failed_pool(self):
        said = [err for _, _, err in self.ranks(3, "torch_processes.py", "threads", PENSTOCK_SIZE="1M")]
        self.assertIn("PENSTOCK_SIZE is 1M; it must be a number (bytes) from 16777216", said[0])
        for err in said[1:]:
            self.assertRegex(err, "has not met: rank 0 on .* could not join: penstock: .*PENSTOCK_SIZE is 1M; it must be a number")

    def test_abort_ends_a_wait(self):
        said = self.lines(3, "torch_failures.py", "abort")
        self.assertEqual(len(said), 1, said)
        self.assertIn("was cancelled while it waited for", said[0])

    def test_tensors_that_cannot_be_used(self):
        for line in (said := self.lines(2, "torch_failures.py", "tensors")):
            self.assertRegex(line, "layout Sparse: make it dense|splits 7 elements over 2 ranks|bit_and|tensor on meta: ")
        self.assertEqual(len(said), 8)

    def test_another_torch_is_told(self):
        """`import torch` works in any case."""
        code = "import torch; torch.__version__ = '1.0.0'; import penstock.torch as p; p.backend_module()"
        done = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, env=self.environment())
        self.assertIn("penstock.torch has no part for torch 1.0.0 (built for: ", done.stderr)

    def test_the_example_goes_on_with_other_ranks(self):
        """torchrun, unchanged; a temporary pool, which is gone afterwards."""
        for ranks, says in ((4, "loss"), (2, "goes on after step 6")):
            done = subprocess.run([os.path.join(os.path.dirname(PYTHON), "torchrun"), "--nproc-per-node", str(ranks),
                                   "--master-port", str(free_port()), SOURCE / "examples/train.py", "--steps", "6",
                                   "--layers", "2", "--width", "96", "--checkpoint", self.folder / "state"],
                                  capture_output=True, text=True, timeout=200, env=self.environment(PENSTOCK_NODES=2))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(says, done.stdout)
        self.assertEqual(self.temporary_pools(), [])


if __name__ == "__main__":
    sys.exit(unittest.main())
