"""Penstock's libnccl.so.2 when a thread aborts what another one uses, and in groups that are drawn at random."""

import re
import subprocess
import unittest

from matching_plans import matching_plan
from nccl_ranks import NcclRanks


class NcclAborts(NcclRanks):
    def setUp(self):
        super().setUp()
        self.program = self.compiled("nccl_aborted")

    def test_group_outlives_its_communicator(self):
        """One of two is aborted while the group waits in a call of either."""
        for mode in ("software", "hardware"):
            for aborted in (0, 1):
                with self.subTest(mode=mode, aborted=aborted):  # freed memory is overwritten
                    self.all_right(2, "group", True, timeout=100, ABORTED=aborted, MALLOC_PERTURB_=165, PENSTOCK_COLL_PLAN="chunk=4K",
                                   PENSTOCK_POOL=self.pool("256M", mode))

    def test_abort_ends_waits_for_the_own_stream(self):
        """The program's stream is full, so its call waits in the driver."""
        self.all_right(2, "full", True, timeout=100, PENSTOCK_POOL=self.pool("256M"))

    def test_abort_waits_for_no_other_communicator(self):
        for more in ({}, {"MESSAGE": 1}):
            for mode in ("software", "hardware"):
                with self.subTest(mode=mode, **more):
                    said = self.ranks(2, "behind", True, timeout=100, PENSTOCK_POOL=self.pool("256M", mode), **more)
                    self.assertEqual([(status, out) for status, out, _ in said], [(0, "ok\n")] * 2, said)
                    self.assertIn("the GPU may still write to buffers of aborted calls", said[0][2])

    def test_no_aborted_call_writes_afterwards(self):
        """The abort returns when the call's stream has passed it, so that its buffer may be used again."""
        for mode in ("software", "hardware"):
            for more in ({"BYTES": 1 << 20}, {"BYTES": 64}, {"BYTES": 1 << 20, "MESSAGE": 1}):
                with self.subTest(mode=mode, **more):
                    self.all_right(2, "given", True, timeout=100, PENSTOCK_POOL=self.pool("256M", mode), **more)

    def test_abort_ends_a_shrink(self):
        self.all_right(3, "shrink", True, timeout=100, PENSTOCK_POOL=self.pool("256M"))

    def test_many_streams_of_a_group(self):
        """They do not fill the channel's own."""
        self.all_right(2, "streams", True, timeout=60, PENSTOCK_POOL=self.pool("256M"), STANDIN_FULL_QUEUE_ABORTS=1)

    def test_communicator_ends_when_its_gpu_failed(self):
        self.all_right(2, "failed", True, timeout=100, PENSTOCK_POOL=self.pool("256M"))


class NcclThreads(NcclRanks):
    def test_calls_fail_where_no_thread_starts(self):
        self.program = self.compiled("nccl_no_threads")
        done = subprocess.run([self.program], capture_output=True, text=True, timeout=60, env=self.environment(False))
        self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), done.stderr)


class NcclRandom(NcclRanks):
    def setUp(self):
        super().setUp()
        self.program = self.compiled("nccl_random")

    def test_groups_drawn_at_random(self):
        for seed, (gpu, mode, size, more) in enumerate((
                (True, "software", "256M", {}), (True, "hardware", "256M", {"THREADS": 2}), (True, "software", "48M", {"NONBLOCKING": 1}),
                (False, "software", "256M", {"THREADS": 2}), ((True, False, True), "software", "256M", {}))):
            with self.subTest(seed=seed, gpu=gpu, mode=mode, size=size, **more):
                self.all_right(3, "all", gpu, SEED=seed, ROUNDS=12, PENSTOCK_POOL=self.pool(size, mode), **more)

    def test_messages_match_as_planned(self):
        self.program = self.compiled("nccl_matching")
        for gpu in (False, True, (True, False, True)):
            with self.subTest(gpu=gpu):
                self.all_right(3, "plan", gpu, PLAN=matching_plan(self, 3, 25, 1, any_source=False), PENSTOCK_POOL=self.pool("256M"))

    def test_rank_ends_amid_groups(self):
        for seed, (what, gpu, more) in enumerate(((what, gpu, more) for what in ("killed", "abort") for gpu in (False, True)
                                                  for more in ({}, {"NONBLOCKING": 1}))):
            with self.subTest(seed=seed, what=what, gpu=gpu, **more):
                said = self.ranks(3, what, gpu, SEED=seed, ROUNDS=1000, MALLOC_PERTURB_=165, PENSTOCK_POOL=self.pool("256M"), **more)
                self.assertEqual(said[1][0], -9 if what == "killed" else 0, said[1][2])
                for rank in (0, 2):
                    self.assertEqual(said[rank][0], 0, said[rank][2])
                    self.assertTrue(re.match(r"remote process exited.*rank [012]\b", said[rank][1]), said[rank][1])


if __name__ == "__main__":
    unittest.main()
