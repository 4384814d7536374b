"""penstock run: jobs that succeed, jobs that cannot start, and that neither leaves anything behind."""

import json
import os
import signal
import subprocess
import time
import unittest
from pathlib import Path

from matching_plans import matching_plan
from remains import segments_of
from support import HEAT, PENSTOCK, PROGRAMS, PYTHON, SHM, VENV, Case, clean_environment, job_processes_of, temporary_pools_of


class Jobs(Case):
    def heat(self, *options):
        done = self.penstock("run", "-n", "4", "--nodes", "2", "--stats", *options, "--", PYTHON,
                             HEAT, "--points", "120", "--steps", "200")
        self.assertIn("heat: ok: 4 ranks", done.stdout)
        return done.stderr

    def assert_carried(self, said, mode):
        self.assertIn(f"transport: penstock, {mode} coherence", said)
        line = [line for line in said.splitlines() if "through the pool" in line][0]
        self.assertIn("4 ranks on 2 nodes", line)
        messages = int(line.split(" sent ")[1].split()[0])
        # Two neighbours across the nodes, two messages each step of each pair at the least.
        self.assertGreater(messages, 200 * 4)

    def test_heat_in_software_mode(self):
        self.assert_carried(self.heat("--mode", "software"), "software")

    def test_heat_in_hardware_mode(self):
        self.assert_carried(self.heat("--mode", "hardware"), "hardware")

    def test_messages_match_as_planned(self):
        for mode in ("software", "simulated"):
            with self.subTest(mode=mode):
                done = self.penstock("run", "-n", "3", "--nodes", "3", "--mode", mode, "--", PYTHON, PROGRAMS / "matching.py", "mpi",
                                     matching_plan(self, 3, 60, 5, any_source=True))
                self.assertEqual(done.stdout.count("matching: ok"), 3, done.stderr)

    def test_heat_on_a_named_pool_twice(self):
        spec = self.pool("128M", "software")
        for _ in range(2):
            self.assert_carried(self.heat("--pool", spec), "software")
        info = self.info(spec)
        self.assertEqual((info["alive"], info["dead"]), (0, 0))

    def test_eight_ranks_talk_all_to_all(self):
        done = self.penstock("run", "-n", "8", "--nodes", "4", "--", PYTHON,
                             PROGRAMS / "all_to_all.py", timeout=200)
        self.assertIn("all to all: ok", done.stdout)

    def test_windows(self):
        for mode, ranks, nodes in (("software", 4, 2), ("hardware", 2, 2), ("simulated", 2, 2)):
            done = self.penstock("run", "-n", ranks, "--nodes", nodes, "--mode", mode, "--", PYTHON,
                                 PROGRAMS / "windows.py")
            self.assertIn("windows: ok", done.stdout)

    def test_random_epochs(self):
        for mode, ranks in (("software", 3), ("hardware", 2), ("simulated", 3)):
            done = self.penstock("run", "-n", ranks, "--nodes", ranks, "--mode", mode, "--", PYTHON,
                                 PROGRAMS / "epochs.py")
            self.assertIn("epochs: ok", done.stdout)

    def test_every_rank_a_node(self):
        done = self.penstock("run", "-n", "3", "--nodes", "3", "--", PYTHON,
                             PROGRAMS / "all_to_all.py")
        self.assertIn("all to all: ok", done.stdout)

    def test_one_node_goes_through_the_pool_too(self):
        done = self.penstock("run", "-n", "2", "--nodes", "1", "--stats", "--", PYTHON,
                             PROGRAMS / "all_to_all.py")
        self.assertIn("2 ranks on 1 node", done.stderr)
        self.assertNotIn("sent 0 messages", done.stderr)

    def test_one_rank(self):
        done = self.penstock("run", "-n", "1", "--", PYTHON, PROGRAMS / "all_to_all.py")
        self.assertIn("all to all: ok", done.stdout)

    def test_two_jobs_on_one_pool(self):
        spec = self.pool("128M", "software")
        command = ["run", "-n", "2", "--pool", spec, "--", PYTHON, PROGRAMS / "all_to_all.py"]
        jobs = [self.start(*command) for _ in range(2)]
        for job in jobs:
            output, _ = job.communicate(timeout=120)
            self.assertEqual(job.returncode, 0, output)
            self.assertIn("all to all: ok", output)

    def test_ps_shows_the_ranks(self):
        spec = self.pool("64M", "software")
        job = self.start("run", "-n", "2", "--nodes", "2", "--pool", spec, "--", PYTHON,
                         PROGRAMS / "wait.py")
        self.assertIn("all there", job.stdout.readline())
        listed = self.penstock("ps", spec).stdout
        ranks = [line.split()[4] for line in listed.splitlines()[1:]]
        self.assertEqual(sorted(ranks), ["0", "1"], listed)
        self.assertEqual(self.info(spec)["alive"], 2)

        def sent_both_ways():
            rows = json.loads(self.penstock("ps", "--json", "--peers", spec).stdout)
            sent = {(row["process"], row["peer"]): row["messages_sent"] for row in rows}
            return sent.get(("rank 0", "rank 1"), 0) > 0 and sent.get(("rank 1", "rank 0"), 0) > 0

        self.wait_for(sent_both_ways, "what the ranks have sent to each other")
        self.assertIn("STALLS", self.penstock("ps", "--peers", spec).stdout)
        self.refused("pool", "rm", spec, says="in use", fix="--force")

    def test_status_of_the_program(self):
        done = self.penstock("run", "-n", "2", "--", PYTHON, "-c",
                             "from mpi4py import MPI; import sys; MPI.Finalize(); sys.exit(7)",
                             status=None)
        self.assertEqual(done.returncode, 7, done.stderr)

    def test_window_library_is_preloaded(self):
        for options, says in (((), "2 of 2"), (("--no-windows",), "0 of 2")):
            done = self.penstock("run", "-n", "2", *options, "--", PYTHON, PROGRAMS / "preloaded.py")
            self.assertIn(f"preloaded: {says}", done.stdout)

    def test_totals_name_one_sided_operations_and_collectives(self):
        summary = self.folder / "job.json"
        program = ("from mpi4py import MPI\nimport numpy as np\nc = MPI.COMM_WORLD\n"
                   "w = MPI.Win.Allocate(64, 8, comm=c)\nx, y = np.ones(1), np.zeros(1)\n"
                   "w.Lock_all()\nfor i in range(5): w.Put(x, 1 - c.rank)\nw.Unlock_all()\n"
                   "for i in range(50): c.Allreduce(x, y)\nw.Free()")
        done = self.penstock("run", "-n", "2", "--stats", "--json", summary, "--", PYTHON, "-c", program)
        counts = {each["what"]: each for each in json.loads(summary.read_text())["calls"]}
        self.assertEqual((counts["one-sided operations"]["calls"], counts["one-sided operations"]["bytes"]), (10, 80))
        # the first calls of a communicator go to the MPI
        self.assertGreater(counts["collectives"]["calls"], 50)
        self.assertIn(", 10 one-sided operations with 80 B through the pool", done.stderr)

    def test_standard_input_reaches_rank_0(self):
        done = self.penstock("run", "-n", "2", "--", PYTHON, "-c",
                             "from mpi4py import MPI; r = MPI.COMM_WORLD.rank\n"
                             "print('got', input()) if r == 0 else None", input="hello\n")
        self.assertIn("got hello", done.stdout)


class Small(Case):
    """Jobs in a shared memory of their own. Temporary pools take memory as they use it."""

    def in_shared_memory_of(self, size, *command):
        return self.in_shell(size, f'exec {PENSTOCK} "$@"', *command)

    def in_shell(self, size, script, *words):
        if os.geteuid() != 0:
            self.skipTest("mounting a small /dev/shm needs root")
        mounted = f"mount -t tmpfs -o size={size} tmpfs /dev/shm && {script}"
        done = subprocess.run(["unshare", "--mount", "sh", "-c", mounted, "sh", *map(str, words)],
                              capture_output=True, text=True, timeout=200, env=clean_environment())
        if "unshare" in done.stderr or "mount:" in done.stderr:
            self.skipTest("no mount namespaces here")
        return done

    def test_a_container_s_shared_memory_suffices(self):
        for ranks, program in ((2, "all_to_all.py"), (4, "windows.py")):
            done = self.in_shared_memory_of("64M", "run", "-n", ranks, "--", PYTHON, PROGRAMS / program)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_too_small_memory_is_a_clear_error(self):
        command = ("run", "-n", 8, "--nodes", 8, "--", PYTHON, PROGRAMS / "all_to_all.py")
        done = self.in_shared_memory_of("18M", *command)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("remount,size=", done.stderr)
        self.assertIn("grows as it is used, and ", done.stderr)
        self.assertNotIn("--size ", done.stderr)
        self.assertNotIn("signal 7", done.stderr)
        # The MPI's own shared memory has no room either.
        done = self.in_shared_memory_of("9M", *command)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("/dev/shm", done.stderr)

    def test_ranks_dying_at_start_leave_nothing(self):
        program = self.folder / "fails"
        subprocess.run([VENV / "bin/mpicc", PROGRAMS / "fails.c", "-o", program], check=True)
        jobs = f"for job in 1 2 3 4 5 6 7 8; do {PENSTOCK} run -n 4 -- {program} early; done >/dev/null 2>&1"
        self.assertEqual(self.in_shell("512M", f"{jobs}; ls -A /dev/shm").stdout, "")

    def test_little_is_taken(self):
        job = self.start("run", "-n", "4", "--nodes", "4", "--", PYTHON, PROGRAMS / "wait.py")
        self.assertIn("all there", job.stdout.readline())
        (pool,) = temporary_pools_of(job.pid)
        status = (SHM / pool).stat()
        self.assertGreater(status.st_size, 100 << 20)
        self.assertLess(status.st_blocks * 512, 24 << 20)


class Refused(Case):
    def test_more_ranks_than_slots(self):
        spec = self.pool("32M", "software", "--max-processes", "3")
        self.refused("run", "-n", "4", "--pool", spec, "--", PYTHON, HEAT,
                     says=["3 process slots", "4 ranks take 8"], fix="--ranks 4")
        self.refused("run", "-n", "4", "--no-windows", "--pool", spec, "--", PYTHON, HEAT,
                     says=["3 process slots", "4 ranks take 4"], fix="--ranks 4")
        self.penstock("run", "-n", "3", "--no-windows", "--pool", spec, "--", PYTHON, PROGRAMS / "all_to_all.py")

    def test_more_ranks_than_endpoints_of_any_pool(self):
        for ranks in ("0", "20000", "2147483648", "4294967297"):
            self.refused("run", "-n", ranks, "--", PYTHON, HEAT, says=f"Value {ranks} not in range 1 to 16384", status=2)

    def test_modes_that_disagree(self):
        spec = self.pool("32M", "software")
        self.refused("run", "-n", "2", "--pool", spec, "--mode", "hardware", "--", PYTHON, HEAT,
                     says=["software mode", "hardware"], fix="penstock pool create")

    def test_named_pool_absent(self):
        self.refused("run", "-n", "2", "--pool", "shm:no-such-pool", "--", PYTHON, HEAT,
                     says="absent", fix="penstock pool create")

    def test_temporary_folder_absent(self):
        done = self.penstock("run", "-n", "2", "--", PYTHON, "-c", "", status=1,
                             environment=clean_environment(TMPDIR="/nowhere"))
        self.assertIn("/nowhere", done.stderr)
        self.assertIn("unset TMPDIR", done.stderr)

    def test_program_absent(self):
        self.refused("run", "-n", "2", "--", "no-such-program", says="no-such-program")

    def test_numbers_that_make_no_sense(self):
        self.refused("run", "-n", "2", "--nodes", "3", "--", PYTHON, HEAT, says="--nodes 2", status=2)
        self.penstock("run", "-n", "two", "--", PYTHON, HEAT, status=2)

    def test_pool_too_small_for_the_job(self):
        large = clean_environment(PENSTOCK_CHANNELS="cells=32,first_lines=1024")  # channels, from the start
        done = self.penstock("run", "-n", "8", "--nodes", "8", "--size", "16M", "--", PYTHON,
                             PROGRAMS / "all_to_all.py", status=None, timeout=200, environment=large)
        self.assertNotEqual(done.returncode, 0)
        said = done.stdout + done.stderr
        self.assertIn("run the job with --size 32M", said)
        self.assertNotIn("pool create shm:run-", said)
        self.assertIn("was full: run it with --size 32M", said)

    def test_program_without_mpi(self):
        done = self.penstock("run", "-n", "2", "--", "sleep", "0.3", status=1)
        self.assertIn("no process of the job attached to the pool", done.stderr)
        # MPICH's launcher may die of SIGPIPE where all ranks end before it is ready
        self.penstock("run", "-n", "2", "--allow-fallback", "--", "sleep", "0.3")

    def test_another_provider_is_not_taken(self):
        """MPICH is told to take TCP behind our back: PENSTOCK_REQUIRE makes the job fail."""
        program = ("import os; os.environ['FI_PROVIDER'] = 'tcp'\n"
                   "from mpi4py import MPI; MPI.COMM_WORLD.Barrier()")
        done = self.penstock("run", "-n", "2", "--", PYTHON, "-c", program, status=None)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("penstock", done.stderr)
        self.penstock("run", "-n", "2", "--allow-fallback", "--", PYTHON, "-c", program)


class Interrupted(Case):
    segments = set()

    def start_job(self, **more):
        job = self.start("run", "-n", "2", "--nodes", "2", "--", PYTHON, PROGRAMS / "wait.py", **more)
        self.assertIn("all there", job.stdout.readline())
        self.assertNotEqual(temporary_pools_of(job.pid), [])
        self.assertNotEqual(job_processes_of(job.pid), [])
        self.segments = segments_of(job_processes_of(job.pid))
        self.assertNotEqual(self.segments, set())
        # a cleanup after all ranks were killed at once knows them only from their notes
        noted = f"penstock-run-{job.pid}-*/segments"
        self.wait_for(lambda: any(path.read_text() for path in self.temporary.glob(noted)),
                      "the MPI's segments to be noted")
        return job

    def assert_nothing_left(self, job):
        self.wait_for(lambda: not any(path.exists() for path in self.segments), "MPICH's own segments")
        self.wait_for(lambda: not temporary_pools_of(job.pid), "the temporary pool is removed")
        self.wait_for(lambda: not job_processes_of(job.pid), "the job's processes are ended")

    def interrupt_by(self, number):
        job = self.start_job()
        job.send_signal(number)
        output, _ = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 128 + number, output)
        self.assertIn(f"interrupted by signal {int(number)}", output)
        self.assert_nothing_left(job)

    def test_interrupt(self):
        self.interrupt_by(signal.SIGINT)

    def test_terminate(self):
        self.interrupt_by(signal.SIGTERM)

    def test_hang_up(self):
        self.interrupt_by(signal.SIGHUP)

    def test_ctrl_c_of_a_terminal(self):
        """The terminal sends it to the whole process group."""
        job = self.start_job(start_new_session=True)
        os.killpg(job.pid, signal.SIGINT)
        output, _ = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 128 + signal.SIGINT, output)
        self.assert_nothing_left(job)

    def test_kill_of_run_itself(self):
        job = self.start_job()
        job.kill()
        job.wait(60)
        self.assert_nothing_left(job)

    def test_kill_of_the_whole_process_group(self):
        job = self.start_job(start_new_session=True)
        os.killpg(job.pid, signal.SIGKILL)
        job.wait(60)
        self.assert_nothing_left(job)

    def test_kill_of_all_and_the_janitor(self):
        """The next run removes leftovers that are some seconds old."""
        job = self.start_job()
        os.kill(job.pid, signal.SIGSTOP)
        children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
        everybody = {job.pid, *map(int, children), *job_processes_of(job.pid)}
        # Stop all first: a killed process must not be cleaned up by one that still runs.
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in everybody:
                os.kill(pid, number)
        job.wait(60)
        folders = list(self.temporary.glob(f"penstock-run-{job.pid}-*"))
        self.assertNotEqual(folders, [])
        self.assertNotEqual(temporary_pools_of(job.pid), [])
        time.sleep(12)
        self.penstock("run", "-n", "1", "--", PYTHON, PROGRAMS / "all_to_all.py")
        self.assert_nothing_left(job)
        self.assertEqual([folder for folder in folders if folder.exists()], [])

    def test_a_pool_that_is_cut_short(self):
        job = self.start_job()
        for name in temporary_pools_of(job.pid):
            os.truncate(SHM / name, 4096)
        output, _ = job.communicate(timeout=60)
        self.assertNotEqual(job.returncode, 0, output)
        self.assertGreater(job.returncode, 0, f"run itself was killed: {output}")
        self.assertRegex(output, "was cut short|signal 7")
        self.assert_nothing_left(job)

    def test_kill_of_the_launcher(self):
        job = self.start_job()
        for pid in job_processes_of(job.pid):
            if Path(f"/proc/{pid}/comm").read_text().startswith("mpiexec"):
                os.kill(pid, signal.SIGKILL)
        output, _ = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 128 + signal.SIGKILL, output)
        self.assert_nothing_left(job)

    def test_orderly_end_leaves_nothing(self):
        job = self.start("run", "-n", "2", "--", PYTHON, PROGRAMS / "wait.py", "10")
        output, _ = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 0, output)
        self.assert_nothing_left(job)


if __name__ == "__main__":
    unittest.main()
