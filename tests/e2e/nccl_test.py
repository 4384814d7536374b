"""Penstock's libnccl.so.2: every call, with and without a GPU; ranks that die or give up; invalid use."""

import re
import shutil
import subprocess
import time
import unittest

from nccl_ranks import BUILD, LIBRARY, STANDIN, STRICT, NcclRanks
from support import PROGRAMS, SOURCE, clean_environment
from switches import ALWAYS, Switches

NAMES = 193  # functions of NCCL 2.32.3, with and without the prefix p


class Nccl(NcclRanks, Switches):
    def setUp(self):
        super().setUp()
        self.program = self.compiled("nccl_calls")

    def test_calls_in_a_temporary_pool(self):
        for gpu in (False, True):
            for ranks in (1, 2, 3):
                with self.subTest(gpu=gpu, ranks=ranks):
                    self.all_right(ranks, "calls", gpu)

    def test_calls_in_pools_of_each_mode(self):
        for mode in ("software", "hardware", "uncached", "simulated"):
            pool = self.pool("256M", mode)
            # Later jobs get the memory of earlier ones, whose lines caches may still hold.
            for turn, gpu in enumerate((False, True) * (2 if mode == "simulated" else 1)):
                with self.subTest(mode=mode, turn=turn):
                    self.all_right(4, "calls", gpu, PENSTOCK_POOL=pool, PENSTOCK_NODES=2, PENSTOCK_SIM_SEED=3 + turn)
            left = [line.split()[0] for line in self.penstock("pool", "ls", "--all", pool).stdout.splitlines()[1:]]
            self.assertEqual([name for name in left if not name.startswith("penstock.endpoints")], [])

    def test_calls_in_memory_of_the_pool(self):
        pool_memory = {"PENSTOCK_NCCL_MEMORY": "pool"}
        for mode in ("software", "hardware", "simulated"):
            with self.subTest(mode=mode):
                self.all_right(3, "calls", True, PENSTOCK_POOL=self.pool("256M", mode), PENSTOCK_NODES=3, PENSTOCK_SIM_SEED=5, **pool_memory)
        self.all_right(2, "calls", False, PENSTOCK_POOL=self.pool("256M", "simulated"), PENSTOCK_NODES=2, **pool_memory)
        for what in ("death", "abort"):
            said = self.ranks(2, what, True, MESSAGE=1, PENSTOCK_POOL=self.pool(), **pool_memory)
            self.assertEqual(said[0][0], 0, said[0][2])
            self.assertRegex(said[0][1], r"^remote process exited.*rank 1")

    def filler(self, objects, size, pool):
        """Another user of the pool, who has filled new objects there."""
        program = self.folder / "filler"
        if not program.exists():
            subprocess.run([*STRICT, f"-I{SOURCE}/include", PROGRAMS / "pool_filler.c", "-o", program, f"-L{BUILD}/lib", "-lpenstock",
                            f"-Wl,-rpath,{BUILD}/lib"], check=True)
        user = subprocess.Popen([program, str(objects), str(size)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                env=clean_environment(PENSTOCK_POOL=pool))
        self.assertEqual(user.stdout.readline(), "filled\n")
        return user

    def test_messages_outlive_their_sender(self):
        self.program = self.compiled("nccl_ends")
        for gpu in (False, True):
            for first in ({}, {"ALONE": "1"}):  # the first communicator of a rank names its job in the pool
                with self.subTest(gpu=gpu, **first):
                    pool = self.pool("64M")
                    folder = self.folder / f"gone-{gpu}-{len(first)}"
                    folder.mkdir()
                    job = self.begin(2, "gone", gpu, folder, PENSTOCK_POOL=pool, **first)
                    self.wait_for((folder / "ended").exists, "rank 1 to end")
                    user = self.filler(4000, 4096, pool)  # has what was reclaimed
                    (folder / "go").touch()
                    self.assertEqual(self.outcomes(job, 60), [(0, "ok\n", "")] * 2)
                    self.assertEqual(user.communicate(timeout=60)[0], "0 changed\n")

    def test_slots_of_ended_ranks_stay_untouched(self):
        """Their memory has another owner when the last rank leaves the communicator."""
        self.program = self.compiled("nccl_ends")
        pool = self.pool("64M")
        folder = self.folder / "slots-gone"
        folder.mkdir()
        job = self.begin(2, "gone", True, folder, PENSTOCK_POOL=pool, LONG=1)
        self.wait_for((folder / "ended").exists, "rank 1 to end")
        user = self.filler(738, 65536, pool)
        (folder / "go").touch()
        self.assertEqual(self.outcomes(job, 60), [(0, "ok\n", "")] * 2)
        self.assertEqual(user.communicate(timeout=60)[0], "0 changed\n")

    def test_long_messages_wait_for_their_receive(self):
        """No chunk comes before it, into memory from which it would have to be copied again."""
        self.program = self.compiled("nccl_messages")
        for gpu, size in ((False, "256M"), (True, "256M"), (True, "32M")):  # the last has no room for slots
            with self.subTest(gpu=gpu, size=size):
                for status, out, err in self.ranks(3, "late", gpu, PENSTOCK_POOL=self.pool(size), PENSTOCK_LOG="info"):
                    self.assertEqual((status, out), (0, "ok\n"), err)
                    self.assertEqual("NCCL messages of GPUs: 4 slots of" in err, gpu and size == "256M", err)
                    kept = re.findall(r"unexpected messages: at most (\d+) bytes kept", err)
                    self.assertLess(max(map(int, kept), default=0), 8192, err)  # notes that tell of chunks

    def test_long_messages_cross_hosts(self):
        """Their memory is not coherent: what a GPU leaves in its host's caches is written back, and old copies are dropped."""
        self.program = self.compiled("nccl_messages")
        pool = self.pool("256M", "simulated")
        for turn in range(2):  # the second time in memory that was used before
            with self.subTest(turn=turn):
                self.all_right(3, "late", True, PENSTOCK_POOL=pool, PENSTOCK_NODES=3, PENSTOCK_SIM_SEED=3 + turn)

    def test_messages_of_one_who_aborts(self):
        self.program = self.compiled("nccl_messages")
        for turn in range(5):
            with self.subTest(turn=turn):
                said = self.ranks(2, "abandoned", True, PENSTOCK_POOL=self.pool("256M"), PENSTOCK_SIM_SEED=turn)
                self.assertEqual(said[0][:2], (0, "aborted\n"), said[0][2])
                self.assertEqual(said[1][0], 0, said[1][2])
                self.assertIn(said[1][1], ("right\n", "an error\n"))

    def test_messages_of_equal_words(self):
        """They are not taken for notes that tell of chunks."""
        self.program = self.compiled("nccl_messages")
        said = self.ranks(2, "alike", True, PENSTOCK_POOL=self.pool("256M"))
        self.assertEqual([status for status, _, _ in said], [0, 0], said)
        self.assertRegex(said[1][1], r"^right\nright\nncclRecv: rank 0 has sent 262144 bytes where this rank receives 16: both ")

    def test_sender_may_end_with_its_stream(self):
        self.program = self.compiled("nccl_messages")
        for size, length in (("256M", 1000), ("256M", 300000), ("32M", 300000)):  # the last has no room for slots
            with self.subTest(size=size, length=length):
                self.all_right(2, "ends", True, BYTES=length, PENSTOCK_POOL=self.pool(size))

    def test_death_is_told_beside_other_messages(self):
        self.program = self.compiled("nccl_messages")
        said = self.ranks(3, "beside", True, timeout=20, PENSTOCK_POOL=self.pool("256M"))
        self.assertEqual(said[0][0], 0, said[0][2])
        self.assertRegex(said[0][1], r"^ncclRecv from rank 1: rank 1 .* died")

    def test_aborted_communicators_free_their_slots(self):
        self.program = self.compiled("nccl_messages")
        for status, out, err in self.ranks(2, "made", True, PENSTOCK_POOL=self.pool("256M"), PENSTOCK_LOG="info"):
            self.assertEqual((status, out), (0, "ok\n"), err)
            self.assertEqual(set(re.findall("4 slots of (.*) for each other rank", err)), {"1 MiB"}, err)

    def test_slots_stay_while_ranks_may_use_them(self):
        """Its GPU has them registered, and can register them as nothing else."""
        self.program = self.compiled("nccl_messages")
        self.all_right(2, "left", True, PENSTOCK_POOL=self.pool("64M"))

    def test_messages_wait_outside_the_driver(self):
        """There an error of another rank would not end the wait."""
        self.program = self.compiled("nccl_messages")
        for what in ("full", "small"):
            self.all_right(2, what, True, timeout=20, PENSTOCK_POOL=self.pool("64M"), STANDIN_FULL_QUEUE_ABORTS=1)
        said = self.ranks(2, "deaf", True, timeout=20, PENSTOCK_POOL=self.pool("64M"), STANDIN_FULL_QUEUE_ABORTS=1)
        self.assertEqual([out for _, out, _ in said], ["ncclSend: rank 1 has given up\n", "ok\n"], said)

    def test_many_messages_begin_before_the_other_rank(self):
        """The call that begins a group returns, though its stream has no room for the operations of each message."""
        self.program = self.compiled("nccl_messages")
        for first in (0, 1):
            with self.subTest(first=first):
                self.all_right(2, "many", True, timeout=60, FIRST=first, PENSTOCK_POOL=self.pool("256M"), STANDIN_FULL_QUEUE_ABORTS=1)

    def test_receiver_is_told_when_sender_gives_up(self):
        self.program = self.compiled("nccl_messages")
        said = self.ranks(2, "mute", True, timeout=20, PENSTOCK_POOL=self.pool("256M"))
        self.assertEqual([out for _, out, _ in said], ["ok\n", "ncclRecv: rank 0 has given up\n"], said)

    def test_group_calls_do_not_block_each_other(self):
        """Ranks may name its communicators in any order, also with messages that are longer than a stream's queue."""
        self.program = self.compiled("nccl_crossed")
        for what, length in (("messages", 70_000_000), ("one_stream", 4_000_000), ("both_ways", 4_000_000), ("collectives", 4_000_000)):
            with self.subTest(what=what):
                self.all_right(2, what, True, timeout=20, BYTES=length, PENSTOCK_POOL=self.pool("48M"))

    def test_long_messages_between_host_and_gpu(self):
        self.program = self.compiled("nccl_messages")
        self.all_right(3, "late", (True, False, True), PENSTOCK_POOL=self.pool("256M"))
        self.all_right(3, "late", (False, True, False), PENSTOCK_POOL=self.pool("256M"))

    def test_long_messages_end_with_a_rank(self):
        self.program = self.compiled("nccl_messages")
        for gpu in (False, True):
            for what in ("killed", "abort"):
                with self.subTest(gpu=gpu, what=what):
                    said = self.ranks(3, what, gpu, PENSTOCK_POOL=self.pool("256M"))
                    self.assertEqual(said[1][0], -9 if what == "killed" else 0, said[1][2])
                    for rank in (0, 2):  # the other one may have given up first
                        self.assertEqual(said[rank][0], 0, said[rank][2])
                        self.assertRegex(said[rank][1], r"^remote process exited.*rank [012]\b")

    def test_ranks_may_end_while_another_still_meets(self):
        """Rank 1 is slow in a meeting; what the others leave in the pool is soon somebody else's."""
        self.program = self.compiled("nccl_ends")
        slow = self.slow_reads()
        for number, late in enumerate(("1:300,2:1500", "2:500")):
            with self.subTest(late=late):
                pool = self.pool()
                folder = self.folder / f"meets-{number}"
                folder.mkdir()
                job = self.begin(3, "init", False, folder, SLOW=("", late, ""), LD_PRELOAD=("", slow, ""), PENSTOCK_POOL=pool)
                last = job[2].communicate(timeout=60)
                user = self.filler(1000, 640, pool)
                self.assertEqual([*self.outcomes(job[:2], 60), (job[2].returncode, *last)], [(0, "ok\n", "")] * 3)
                self.assertEqual(user.communicate(timeout=60)[0], "0 changed\n")

    def test_rank_without_color_may_end_early(self):
        self.program = self.compiled("nccl_ends")
        self.all_right(3, "nocolor", False, PENSTOCK_POOL=self.pool(), SLOW=("3:500", "", ""), LD_PRELOAD=(self.slow_reads(), "", ""))

    def test_split_after_a_shrink(self):
        self.program = self.compiled("nccl_ends")
        self.all_right(3, "shrink", False)

    def test_forked_child_is_refused(self):
        self.program = self.compiled("nccl_ends")
        for gpu in (False, True):
            with self.subTest(gpu=gpu):
                self.all_right(2, "fork", gpu)

    def slow_reads(self):
        library = self.folder / "slow.so"
        subprocess.run([*STRICT, "-shared", "-fPIC", PROGRAMS / "nccl_slow_reads.c", "-o", library, "-ldl"], check=True)
        return library

    def test_all_ranks_in_one_thread(self):
        for gpu in (False, True):
            done = subprocess.run([self.program, "-", "3", self.folder, "all"], capture_output=True, text=True, timeout=100,
                                  env=self.environment(gpu))
            self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), done.stderr)

    def test_one_process_has_several_gpus(self):
        """The GPU of a rank is the one that is current when its communicator is made, inside a group too."""
        self.program = self.compiled("nccl_devices")
        for mode in ("software", "hardware"):
            for what in ("group", "all", "list"):
                with self.subTest(mode=mode, what=what):
                    done = self.drives(3, what, PENSTOCK_POOL=self.pool("256M", mode))
                    self.assertEqual((done.returncode, done.stdout), (0, "ok\n"), done.stderr)

    def test_refuses_devices_that_do_not_exist(self):
        self.program = self.compiled("nccl_devices")
        done = self.drives(2, "refused")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.splitlines(), [
            "ncclCommInitAll: 3 devices, and this process sees 2 of them: pass a list of devices, which may name one for several ranks",
            "ncclCommInitAll: device 2 of the list does not exist: this process sees 2, from 0 on"])

    def test_refuses_streams_of_other_gpus(self):
        self.program = self.compiled("nccl_devices")
        done = self.drives(2, "streams")
        self.assertEqual(done.returncode, 0, done.stderr)
        words = "the stream belongs to GPU 0, and the communicator to GPU 1, whose streams alone can carry its calls"
        self.assertEqual(done.stdout.splitlines(), [f"ncclAllReduce: {words}", f"ncclSend: {words}", "ok"])

    def drives(self, devices, what, **more):
        """Runs a program whose one thread has a rank on each of so many devices."""
        return subprocess.run([self.program, str(devices), what], capture_output=True, text=True, timeout=100,
                              env=self.environment(True, STANDIN_DEVICES=devices, **more))

    def test_two_threads_use_one_communicator(self):
        """NCCL forbids this, but messages and sums are correct all the same."""
        self.program = self.compiled("nccl_threads")
        for what in ("collectives", "messages"):
            with self.subTest(what=what):
                self.all_right(2, what, False)

    def test_calls_in_a_switch(self):
        for gpu, mode in ((False, "simulated"), (True, "simulated"), (True, "hardware")):  # which has the direct form else
            pool = self.pool("256M", mode)
            with self.subTest(gpu=gpu, mode=mode):
                switch = self.play(pool)
                self.all_right(3, "calls", gpu, PENSTOCK_POOL=pool, PENSTOCK_NODES=3, PENSTOCK_SIM_SEED=3, **ALWAYS)
                facts = self.end_of(switch)
                self.assertGreater(facts["chunks"], 150, facts)
                self.assertEqual(facts["failures"], 0, facts)

    def test_calls_go_on_when_the_switch_dies(self):
        for gpu in (False, True):
            with self.subTest(gpu=gpu):
                pool = self.pool("256M")
                switch = self.play(pool)
                folder = self.folder / f"switch-{gpu}"
                folder.mkdir()
                job = self.begin(3, "many", gpu, folder, PENSTOCK_POOL=pool, PENSTOCK_NODES=3, **ALWAYS)
                said = job[0].stderr.readline()
                self.assertEqual(said, "turn 50\n")
                switch.kill()
                done = self.outcomes(job)
                self.assertEqual([(status, out) for status, out, _ in done], [(0, "ok\n")] * 3, done)
                self.assertIn("goes on without the switch", "".join(err for _, _, err in done))

    def test_some_ranks_have_no_gpu(self):
        for in_switch in (False, True):
            with self.subTest(in_switch=in_switch):
                pool = self.pool("256M")
                switch = self.play(pool) if in_switch else None
                self.all_right(3, "sizes", (True, False, True), PENSTOCK_POOL=pool, PENSTOCK_NODES=3, **(ALWAYS if in_switch else {}))
                if in_switch:
                    facts = self.end_of(switch)
                    self.assertGreater(facts["chunks"], 150, facts)
                    self.assertEqual(facts["failures"], 0, facts)

    def test_switch_dies_during_any_call(self):
        for gpu, turn, after_s in ((True, 0, 0.02), (True, 0, 0.3), (True, 1, 0), ((False, True, True), 0, 0.1), ((True, False, True), 1, 0.05)):
            with self.subTest(gpu=gpu, turn=turn, after_s=after_s):
                pool = self.pool("256M")
                switch = self.play(pool)
                folder = self.folder / f"midst-{gpu}-{turn}-{after_s}"
                folder.mkdir()
                job = self.begin(3, "sizes", gpu, folder, PENSTOCK_POOL=pool, PENSTOCK_NODES=3, **ALWAYS)
                while job[0].stderr.readline() != f"turn {turn}\n":
                    self.assertIsNone(job[0].poll())
                time.sleep(after_s)
                switch.kill()
                done = self.outcomes(job)
                self.assertEqual([(status, out) for status, out, _ in done], [(0, "ok\n")] * 3, done)
                self.assertIn("goes on without the switch", "".join(err for _, _, err in done))

    def test_a_death_is_told(self):
        for gpu in (False, True):
            for more in ({}, {"MESSAGE": 1}):
                with self.subTest(gpu=gpu, **more):
                    said = self.ranks(2, "death", gpu, **more)
                    self.assertEqual(said[1][0], -9)
                    self.assertEqual(said[0][0], 0, said[0][2])
                    self.assertRegex(said[0][1], r"^remote process exited.*rank 1.*\(pid \d+ on host .*died")

    def test_rank_is_killed_during_a_call(self):
        # By the streams alone, and by a thread of the host; kernels that read the pool, and the GPU's memory.
        for form, plan in ((1, "scratch=1G"), (1, "scratch=1K"), (0, "scratch=1G"), (0, "scratch=1K")):
            with self.subTest(direct=form, plan=plan):
                said = self.ranks(3, "killed", True, PENSTOCK_GPU_DIRECT=form, PENSTOCK_COLL_PLAN=plan)
                self.assertEqual(said[1][0], -9)
                for rank in (0, 2):
                    self.assertEqual(said[rank][0], 0, said[rank][2])
                    self.assertRegex(said[rank][1], r"^remote process exited.*rank [012]")
                self.assertRegex(said[0][1] + said[2][1], r"rank 1 \(pid \d+")

    def test_awaits_a_stopped_rank(self):
        for form in (1, 0):
            with self.subTest(direct=form):
                for rank, (status, out, err) in enumerate(self.ranks(2, "stopped", True, PENSTOCK_GPU_DIRECT=form,
                                                                     PENSTOCK_TIMEOUT_MS=300)):
                    self.assertEqual((status, out), (0, "ok\n"), err)
                    if rank == 0:
                        self.assertRegex(err, r"waits on for 1 of 2 ranks: rank 1")

    def test_abort_after_all_calls_is_silent(self):
        for mode in ("software", "hardware"):
            for fused in ("0", "64K"):
                with self.subTest(mode=mode, fused=fused):
                    self.all_right(3, "teardown", True, PENSTOCK_POOL=self.pool("256M", mode), PENSTOCK_GPU_FUSED_BYTES=fused)

    def test_small_calls_are_one_launch(self):
        """If ranks share a GPU, as here, launches are fused only on request, whichever ranks share it."""
        for mode in ("hardware", "uncached", "software"):
            with self.subTest(mode=mode):
                self.all_right(4, "calls", True, PENSTOCK_POOL=self.pool("256M", mode), PENSTOCK_NODES=2, PENSTOCK_SIM_SEED=3,
                               PENSTOCK_GPU_FUSED_BYTES=("64K", "0", "64K", "300"))
                said = self.ranks(2, "calls", True, PENSTOCK_LOG="info", PENSTOCK_POOL=self.pool("256M", mode))
                self.assertEqual([status for status, _, _ in said], [0, 0], said)
                self.assertIn("blocks of up to 0 bytes by one launch, for ranks share a GPU", said[0][2])

    def test_rank_is_killed_during_a_launch(self):
        for mode in ("hardware", "software"):
            with self.subTest(mode=mode):
                said = self.ranks(3, "killed", True, PENSTOCK_POOL=self.pool("256M", mode), PENSTOCK_GPU_FUSED_BYTES="64K")
                self.assertEqual(said[1][0], -9)
                for rank in (0, 2):
                    self.assertEqual(said[rank][0], 0, said[rank][2])
                    self.assertRegex(said[rank][1], r"^remote process exited.*rank [012]")
                self.assertRegex(said[0][1] + said[2][1], r"rank 1 \(pid \d+")

    def test_graphs_are_launched_many_times(self):
        self.program = self.compiled("nccl_graph")
        for mode, ranks in (("hardware", 2), ("hardware", 3), ("uncached", 2)):
            with self.subTest(mode=mode, ranks=ranks):
                self.all_right(ranks, "graph", True, PENSTOCK_POOL=self.pool("256M", mode), PENSTOCK_NODES=2)

    def test_rank_is_killed_between_graph_launches(self):
        self.program = self.compiled("nccl_graph")
        said = self.ranks(3, "killed", True, PENSTOCK_POOL=self.pool("256M", "hardware"))
        self.assertEqual(said[1][0], -9)
        for rank in (0, 2):
            self.assertEqual(said[rank][0], 0, said[rank][2])
            self.assertRegex(said[rank][1], r"^remote process exited.*rank [012]")
        self.assertRegex(said[0][1] + said[2][1], r"rank 1 \(pid \d+")

    def test_refuses_capture_with_a_host_thread(self):
        self.program = self.compiled("nccl_graph")
        for mode, form in (("software", 1), ("hardware", 0)):
            with self.subTest(mode=mode, form=form):
                for status, out, err in self.ranks(2, "refused", True, PENSTOCK_POOL=self.pool("64M", mode), PENSTOCK_GPU_DIRECT=form):
                    self.assertEqual(status, 0, err)
                    self.assertRegex(out, "invalid (argument|usage).*captures a graph, and this communicator's collectives cannot be captured")

    def test_log_says_the_form_of_each_gpu(self):
        for mode, form in (("hardware", 1), ("hardware", 0), ("software", 1)):
            direct = mode == "hardware" and form == 1
            with self.subTest(mode=mode, form=form):
                said = self.ranks(2, "leave", True, PENSTOCK_POOL=self.pool("64M", mode), PENSTOCK_GPU_DIRECT=form, PENSTOCK_LOG="info")
                self.assertIn("collectives of a GPU, 2 ranks: " + ("direct form" if direct else "proxy form"), said[0][2])

    def test_process_may_end_after_its_calls(self):
        for gpu in (False, True):
            for turn in range(10):
                with self.subTest(gpu=gpu, turn=turn):
                    self.all_right(2, "leave", gpu, PENSTOCK_SIM_SEED=turn)

    def test_calls_beside_a_capture(self):
        for mode in ("software", "hardware"):
            with self.subTest(mode=mode):
                self.all_right(2, "beside", True, PENSTOCK_POOL=self.pool("64M", mode))

    def test_a_split_names_who_has_died(self):
        said = self.ranks(3, "split", True)
        for rank in (0, 2):  # the other one may have given up and gone meanwhile
            self.assertEqual(said[rank][0], 0, said[rank][2])
            self.assertRegex(said[rank][1], r"^remote process exited.*rank [012] \(pid \d+")
        self.assertRegex(said[0][1] + said[2][1], r"rank 1 \(pid \d+")

    def test_an_abort_is_told(self):
        for gpu in (False, True):
            for more in ({}, {"MESSAGE": 1}):
                with self.subTest(gpu=gpu, **more):
                    said = self.ranks(2, "abort", gpu, **more)
                    self.assertEqual(said[1], (0, "aborted\n", ""))
                    self.assertEqual(said[0][0], 0, said[0][2])
                    self.assertRegex(said[0][1], r"^remote process exited.*rank 1")

    def test_the_log_says_who_carries_what(self):
        said = self.ranks(2, "calls", True, PENSTOCK_LOG="info")
        self.assertRegex(said[0][2], r"NCCL communicator of 2 ranks goes through pool shm:run-\S+, by Penstock's libnccl.so.2")

    def test_ranks_of_one_host_are_handed_over(self):
        other = self.folder / "other/libnccl.so.2"  # ours once more, for NVIDIA's
        other.parent.mkdir()
        shutil.copy(f"{LIBRARY}/libnccl.so.2", other)
        for turn, (status, out, err) in enumerate(self.ranks(3, "calls", True, PENSTOCK_NCCL_LOCAL=other, PENSTOCK_LOG="info",
                                                             LD_LIBRARY_PATH=f"{STANDIN}:{BUILD}/lib")):
            self.assertEqual((status, out), (0, "ok\n"), err)
            self.assertIn(f"NCCL communicator of 3 ranks stays on this host, by {other}", err)
            self.assertIn("NCCL communicator of 3 ranks goes through pool", err)  # says the other
        said = self.ranks(2, "calls", True, PENSTOCK_NCCL_LOCAL="/nowhere/libnccl.so.2")
        self.assertIn("PENSTOCK_NCCL_LOCAL: /nowhere/libnccl.so.2: cannot open", said[0][2])

    def test_wrong_words(self):
        done = subprocess.run([self.program, "0", "0", self.folder, "calls"], capture_output=True, text=True, timeout=100,
                              env=self.environment(False))
        self.assertIn("ncclCommInitRank: rank 0 of 0 ranks", done.stderr)
        (self.folder / "id").write_bytes(b"another library's unique id".ljust(128, b"!"))
        done = subprocess.run([self.program, "1", "2", self.folder, "calls"], capture_output=True, text=True, timeout=100,
                              env=self.environment(False))
        self.assertIn("was made by another NCCL library", done.stderr)
        self.assertIn("penstock run --nccl", done.stderr)

    def test_env_and_run_preload_it(self):
        pool = self.pool()
        said = self.penstock("env", "--nccl", "--pool", pool).stdout
        self.assertIn(f"export LD_PRELOAD={LIBRARY}/libnccl.so.2\n", said)
        self.assertIn(f"export PENSTOCK_POOL={pool}\n", said)
        self.refused("env", says="--nccl", status=2)
        done = self.penstock("run", "-n", "2", "--nccl", "--pool", pool, "--allow-fallback", "--", "sh", "-c", "echo preloads $LD_PRELOAD")
        self.assertRegex(done.stdout, r"preloads \S*libpenstock-mpi.so:\S*penstock/nccl/libnccl.so.2")

    def test_names_are_those_of_nccl(self):
        listed = subprocess.run(["nm", "-D", "--defined-only", f"{LIBRARY}/libnccl.so.2"], capture_output=True, text=True, check=True)
        names = {line.split()[-1] for line in listed.stdout.splitlines()}
        self.assertTrue(all(re.fullmatch("p?nccl[A-Za-z0-9]+", name) for name in names), names)
        self.assertEqual(len(names), NAMES)
        plain = {name for name in names if not name.startswith("p")} - {"ncclResetDebugInitInternal"}
        self.assertEqual({f"p{name}" for name in plain}, {name for name in names if name.startswith("p")})

    def test_names_are_all_that_pytorch_needs(self):
        listed = subprocess.run(["nm", "-D", "--defined-only", f"{LIBRARY}/libnccl.so.2"], capture_output=True, text=True, check=True)
        names = {line.split()[-1] for line in listed.stdout.splitlines()}
        text = (SOURCE / "tests/conformance/nccl_symbols.txt").read_text()
        since = dict(line.split() for line in text.splitlines() if not line.startswith("#"))
        for torch, count in (("2.11.0", 38), ("2.13.0", 46), ("2.14.1", 51)):
            with self.subTest(torch=torch):
                needed = {name for name, first in since.items() if tuple(map(int, first.split("."))) <= tuple(map(int, torch.split(".")))}
                self.assertEqual(len(needed), count)
                self.assertEqual(needed - names, set())


if __name__ == "__main__":
    unittest.main()
