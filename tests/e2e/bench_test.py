"""penstock bench on this machine: checks that figures are printed, never their values."""
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from remains import segments_of
from support import MPIEXEC, PENSTOCK, PYTHON, SHM, SOURCE, Case, clean_environment, processes_of

STATISTICS = ("median", "p50", "p99", "min", "max")


def name_of(pid):
    try:
        return Path(f"/proc/{pid}/comm").read_text()
    except OSError:
        return ""


class Bench(Case):
    def test_limits_in_both_modes(self):
        done = self.penstock("bench", "limits", "--rounds", "1", "--size", "32M")
        for mode in ("software", "hardware"):
            self.assertIn(f"mode {mode}", done.stdout)
        self.assertIn("hand-over of a message", done.stdout)
        rows = [line.split() for line in done.stdout.splitlines() if line.split()[:1] == ["65536"]]
        self.assertEqual(len(rows), 4)
        software = rows[0]  # its stores never go through the cache: nothing to compare
        self.assertEqual(software.pop(), "-")
        self.assertTrue(all(float(value) > 0 for row in rows for value in row), rows)

    def test_footprint(self):
        done = self.penstock("bench", "footprint", "--ranks", "4", "--neighbours", "2", "--size", "64M")
        table, channels, together, pair = map(float, done.stdout.split("for a pair")[1].split())
        self.assertAlmostEqual(together, table + channels, delta=0.2)
        self.assertGreater(pair, 0.07)  # 8 KiB, and its first cells are 64 KiB

    def test_footprint_of_too_many(self):
        self.refused("bench", "footprint", "--ranks", "1", says="--ranks: Value 1 not in range 2 to", status=2)
        self.refused("bench", "footprint", "--ranks", "4", "--neighbours", "4", says="4 ranks that each talk to 4 are impossible", status=2)
        self.refused("bench", "footprint", "--size", "64M", says="make a larger pool")


DOCTESTS = """
import doctest, importlib
for name in ("budget", "experiment", "machine", "model", "perftest", "printing", "sizes"):
    print(name, doctest.testmod(importlib.import_module(f"penstock.bench.{name}")))
"""


MPICH_OWN = "MPICH's own shared memory"


class Experiments(Case):
    """penstock bench run with tiny sizes: each experiment measures, and reports what it cannot measure."""

    def bench(self, *arguments, status=0, **more):
        environment = clean_environment(PENSTOCK_PYTHON=PYTHON, **more)
        return self.penstock("bench", *arguments, status=status, timeout=220, environment=environment)

    def measured(self, name, *arguments, statuses=("ok", "partial")):
        """Runs an experiment and returns its outcome from results.json; checks that all figures are positive."""
        folder = self.folder / "report"
        self.pid = self.bench("run", name, "--quick", "--repeat", "1", "--report", folder, "--mpiexec", MPIEXEC, *arguments).pid
        results = json.loads((folder / "results.json").read_text())
        self.assertEqual(results["schema"], 1)
        outcome = results["experiments"][name]
        self.assertIn(outcome["status"], statuses, outcome["reason"])
        for row in outcome["rows"]:
            for each in STATISTICS:
                self.assertGreaterEqual(row[each], 0, row)
            if row["metric"] in ("latency_us", "time_us", "bandwidth_MBps"):
                self.assertGreater(row["median"], 0, row)
        with open(folder / "results.csv", newline="") as file:
            lines = list(csv.DictReader(file))
        self.assertEqual([line["series"] for line in lines], [row["series"] for row in outcome["rows"]])
        return outcome

    def series(self, outcome, **fields):
        return {row["series"] for row in outcome["rows"] if not row["theirs"]
                and all(row[name] == value for name, value in fields.items())}

    def assert_measured(self, outcome, series, **fields):
        """A baseline may be missing with a stated reason: MPICH's shared memory sometimes hangs on busy cores."""
        excused = {MPICH_OWN} if re.search(f"without [^:]*{MPICH_OWN}", outcome["reason"] or "") else set()
        self.assertLessEqual(set(series) - excused, self.series(outcome, **fields), fields)

    def test_table1(self):
        outcome = self.measured("table1", "--procs", "1")
        self.assert_measured(outcome, {"main memory", "pool"}, op="dependent load")
        self.assert_measured(outcome, {"main memory", "pool"}, op="read")
        self.assertTrue(self.series(outcome, op="store, write back, fence"))
        self.assertTrue(self.series(outcome, op="drop, fence, load"))
        self.assert_measured(outcome, {"raw TCP socket", "raw TCP socket, polled"}, op="latency", bytes=8)
        on_device = {row["series"] for row in outcome["rows"] if row["serialized"] is not None}
        self.assertFalse(on_device & {"main memory", "pool, hardware, a word", "plain cached line"})
        self.assertIn("pool, software, a word", on_device)
        self.assert_measured(outcome, {"plain cached line", "pool, software, a word"}, op="hand-over")
        theirs = {row["series"]: row["median"] for row in outcome["rows"] if row["theirs"] and row["op"] == "latency"}
        self.assertEqual(theirs["CXL, with flush"], 2.2)

    def test_coherence(self):
        outcome = self.measured("coherence", "--sizes", "64,4K")
        for group in ("clflush", "past the cache", "reader"):
            self.assertTrue(self.series(outcome, group=group, bytes=4096), group)
        self.assert_measured(outcome, {"bytes", "8 B stores", "libc memset"}, group="clflush")
        self.assertIn("uncached", outcome["reason"])

    def test_limits(self):
        outcome = self.measured("limits")
        self.assert_measured(outcome, {f"pool, {mode}, a message" for mode in ("software", "hardware")}, op="hand-over", bytes=8)

    def test_pt2pt(self):
        outcome = self.measured("pt2pt", "--sizes", "64,4096", "--procs", "2")
        everybody = {"TCP", MPICH_OWN, "libfabric shm", "Penstock software", "Penstock hardware",
                     "raw TCP socket", "cMPI ring, 64 KB cells, software"}
        for size in (64, 4096):
            self.assert_measured(outcome, everybody | {"raw limit, software"}, op="latency", metric="latency_us", bytes=size)
            self.assert_measured(outcome, everybody, op="bandwidth", metric="bandwidth_MBps", bytes=size)
        self.assert_measured(outcome, {"TCP", "Penstock software"}, metric="cpu_s_per_GB")
        sockets = {row["series"]: row["median"] for row in outcome["rows"] if row["metric"] == "bytes_socket" and row["bytes"] == 4096}
        self.assertGreater(sockets["TCP"], 4000)  # some lie on either side of where counting begins
        self.assertLess(sockets["Penstock software"], 100)

    def test_metrics_and_series_can_be_chosen(self):
        outcome = self.measured("pt2pt", "--sizes", "64", "--procs", "2", "--metric", "latency_us", "--series", "TCP,Penstock")
        self.assertEqual(self.series(outcome), {"TCP", "Penstock software", "Penstock hardware"})
        self.assertEqual({row["metric"] for row in outcome["rows"]}, {"latency_us"})
        self.assertEqual({row["op"] for row in outcome["rows"]}, {"latency"})
        outcome = self.measured("pt2pt", "--sizes", "64", "--procs", "2", "--series", "gopher", statuses=("absent",))
        self.assertIn("--metric and --series", outcome["reason"])

    def test_more_ranks_than_cores_have_no_times(self):
        ranks = 2 * max(2, len(os.sched_getaffinity(0)))
        outcome = self.measured("pt2pt", "--sizes", "64", "--procs", str(ranks), "--mode", "software")
        own = [row for row in outcome["rows"] if not row["theirs"]]
        self.assertEqual({row["wall"] for row in own}, {False})
        self.assertEqual({row["metric"] for row in own}, {"cpu_us", "cpu_s_per_GB", "bytes_socket", "messages", "bytes_pool"})
        messages = {row["series"]: row["median"] for row in own if row["metric"] == "messages" and row["op"] == "latency"}
        self.assertAlmostEqual(messages["Penstock software"], 1, delta=0.2)
        self.assertIn(f"{ranks} ranks on", outcome["reason"])

    def test_programs_of_others_stand_beside_ours(self):
        """A program with OSU's options and output format."""
        folder = self.folder / "osu"
        folder.mkdir()
        program = folder / "osu_latency"
        program.write_text("#!/bin/sh\n[ \"$1\" = -m ] && exit 1\nprintf '# OSU MPI Latency Test\\n# Size Latency (us)\\n8 1.25\\n64 2.5\\n'\n")
        program.chmod(0o755)
        outcome = self.measured("pt2pt", "--sizes", "64", "--procs", "2", "--mode", "software", "--osu", folder)
        found = [row for row in outcome["rows"] if row["series"] == "osu_latency over TCP"]
        self.assertEqual([(row["bytes"], row["median"]) for row in found], [(64, 2.5)])

    def test_rma(self):
        outcome = self.measured("rma", "--sizes", "64", "--procs", "2", "--mode", "software")
        for op in ("put", "get"):
            for by in ("post, start, complete, wait", "lock and unlock"):
                self.assert_measured(outcome, {"TCP", MPICH_OWN, "Penstock software"}, op=f"{op} latency", group=by)
            self.assert_measured(outcome, {"Penstock software", "raw limit, software"}, op=op)
        self.assert_measured(outcome, {"raw limit"}, op="put bandwidth")

    def test_cells(self):
        ranks = 2 * max(2, len(os.sched_getaffinity(0)))
        outcome = self.measured("cells", "--sizes", "64,16K", "--procs", str(ranks), "--mode", "software")
        cells = {f"cMPI ring, {cell} KB cells, software" for cell in (16, 32, 64, 128)}
        for op in ("latency", "bandwidth"):
            self.assert_measured(outcome, cells | {"Penstock software, without MPI"}, op=op, bytes=16384, procs=2)
        for metric in ("cpu_s_per_GB", "looks_in_vain"):
            self.assert_measured(outcome, cells | {"Penstock software, without MPI"}, metric=metric, bytes=16384, procs=ranks)
        self.assertFalse(self.series(outcome, metric="bandwidth_MBps", procs=ranks))
        self.assertIn(f"{ranks} ranks on", outcome["reason"])

    def test_collectives_in_a_switch(self):
        outcome = self.measured("in_switch", "--sizes", "64K", "--procs", "3")
        rows = {(row["series"], row["metric"]): row["median"] for row in outcome["rows"] if row["op"] == "allreduce"}
        size = 65536
        self.assertEqual(rows["plain pool, one shot", "bytes_down"], 2 * size)
        self.assertEqual(rows["switch", "bytes_up"], size + 64)
        self.assertEqual(rows["switch", "bytes_down"], size + 64)
        self.assertEqual(rows["switch", "bytes_reduced"], 0)
        self.assertAlmostEqual(rows["plain pool, two shots", "bytes_reduced"], size, delta=64)  # shares of whole lines

    def test_placement(self):
        outcome = self.measured("placement", "--sizes", "64")
        self.assert_measured(outcome, {f"{name}, {place}" for name in ("TCP", "Penstock software")
                                       for place in ("HH", "HD", "DH", "DD")}, op="latency", bytes=64)
        self.assertFalse((SHM / f"penstock.penstock-bench-{self.pid}-software").exists())

    def test_collectives(self):
        outcome = self.measured("collectives", "--sizes", "64", "--procs", "2")
        for op in ("barrier", "allreduce"):
            self.assert_measured(outcome, {"TCP", "raw limit", "Penstock software", "Penstock software, by messages"}, op=op,
                                 metric="time_us")
        self.assert_measured(outcome, {"Penstock software"}, op="allreduce", metric="accesses")

    def test_matching(self):
        outcome = self.measured("matching", "--sizes", "1,300")
        series = {MPICH_OWN, "Penstock software", "Penstock software, bounded to 16 MiB"}
        for op, group in (("posted", "300 receives posted"), ("unexpected", "300 messages unexpected")):
            self.assert_measured(outcome, series, op=op, group=group)
        self.assert_measured(outcome, series, op="flood", metric="memory_MB")
        self.assert_measured(outcome, series, op="calls", metric="calls", bytes=8192)
        for row in outcome["rows"]:
            if row["metric"] == "calls" and row["series"] == "Penstock software":
                self.assertEqual(row["median"], 400, row)  # all of them

    def test_ranks(self):
        """Measures real and simulated processes, and compares with an earlier run."""
        outcome = self.measured("ranks", "--procs", "2,4")
        real, simulated = {"series": "Penstock software", "group": "real processes"}, {"series": "Penstock", "group": "simulated ranks"}
        for op, metric in (("MPI_Init", "cpu_s"), ("fence", "cpu_us"), ("waiting", "reads_per_s"), ("at the end", "private_MB")):
            for procs in (2, 4):
                self.assertTrue(self.series(outcome, op=op, metric=metric, procs=procs, **real), (op, metric, procs))
        for op in ("attach", "endpoint", "barrier", "window", "fence", "leave"):
            for metric in ("reads_most", "accesses", "model_us"):
                self.assertTrue(self.series(outcome, op=op, metric=metric, procs=4, **simulated), (op, metric))
        self.assertIn(("attach", "reads_most"), {(each["op"], each["metric"]) for each in outcome["formulas"]})
        earlier = self.folder / "report/results.json"
        beside = self.measured("ranks", "--procs", "2,4", "--before", earlier)
        self.assertTrue(self.series(beside, op="attach", series="Penstock, before"))
        self.assertIn("Penstock, before", {each["series"] for each in beside["formulas"]})
        self.assertIn(" 0 worse", self.bench("compare", earlier, earlier).stdout)

    def test_halo(self):
        outcome = self.measured("halo", "--sizes", "32")
        self.assert_measured(outcome, {"TCP", "Penstock software", "Penstock hardware"}, op="exchange")

    def test_persist(self):
        outcome = self.measured("persist", "--sizes", "64", statuses=("ok", "partial", "absent"))
        if outcome["status"] == "absent":
            self.skipTest(outcome["reason"])
        for op in ("stored and published", "transaction", "checkpoint"):
            self.assert_measured(outcome, {"Penstock, pool in memory"}, op=op)
        self.assert_measured(outcome, {"a file on tmpfs"}, op="checkpoint")

    def test_torch(self):
        outcome = self.measured("torch", "--sizes", "1K", "--procs", "2", statuses=("ok", "absent"))
        if outcome["status"] == "absent":
            self.assertIn("make torch", outcome["reason"])
            self.skipTest(outcome["reason"])
        self.assert_measured(outcome, {"gloo", "Penstock", "raw limit"}, op="all_reduce", metric="time_us")

    def test_examples_of_the_docstrings(self):
        package = Path(PENSTOCK).resolve().parents[1] / "python"
        done = subprocess.run([PYTHON, "-B", "-c", DOCTESTS], capture_output=True, text=True, timeout=60,
                              env=clean_environment(PYTHONPATH=package))
        self.assertEqual(done.stdout.count("failed=0"), 7, done.stdout + done.stderr)

    def test_list_and_unknown_names(self):
        listed = {each["name"] for each in json.loads(self.bench("list", "--json").stdout)}
        self.assertLessEqual({"table1", "coherence", "pt2pt", "rma", "cells", "placement", "collectives", "limits", "halo", "matching",
                              "torch"}, listed)
        done = self.bench("run", "pt2pd", status=2)
        self.assertIn("there is no experiment 'pt2pd'; did you mean 'pt2pt'?", done.stderr)
        done = self.bench("run", "coherenze", "coherence", "--quick", "--sizes", "64", "--repeat", "1", status=2)
        self.assertIn("did you mean 'coherence'?", done.stderr)
        self.assertEqual(done.stdout, "")  # nor did the rest run

    def test_bad_options(self):
        for arguments, says in ((("--sizes", "4x"), "'4x' is no size: give bytes, or a number with K, M or G"),
                                (("--procs", "0"), "'0' is no list of numbers of processes"),
                                (("--mode", "fast"), "'fast' is no mode to measure"),
                                (("--metric", "latency"), "there is no metric 'latency'; did you mean 'latency_us'?"),
                                (("--series", ","), "',' holds no text"),
                                (("--repeat", "0"), "'0' is no number from 1 to 1000000"),
                                (("--limit", "nan"), "'nan' is no number of seconds"),
                                (("--budget", "0"), "'0' is no number of seconds"),
                                (("--reprt", "x"), "penstock bench run has no option '--reprt'; did you mean '--report'?")):
            self.assertIn(says, self.bench("run", "coherence", *arguments, status=2).stderr)
        for arguments, says in ((("--stream", "/nowhere"), "--stream: /nowhere is no program"),
                                (("--osu", "/nowhere"), "/nowhere is no folder")):
            self.assertIn(says, self.bench("run", "coherence", *arguments, status=1).stderr)

    def test_reports_absent_parts_and_runs_the_rest(self):
        folder = self.folder / "report"
        self.bench("run", "halo", "coherence", "--quick", "--sizes", "64", "--repeat", "1", "--report", folder, "--mpiexec",
                   "/nowhere/mpiexec")
        found = json.loads((folder / "results.json").read_text())["experiments"]
        self.assertEqual(found["halo"]["status"], "absent")
        self.assertIn("pip install mpich", found["halo"]["reason"])
        self.assertTrue(found["coherence"]["rows"])
        said = self.bench("run", "coherence", "--quick", "--sizes", "64", "--pool", "shm:e2e-nowhere", "--json", self.folder / "a.json",
                          status=1).stdout
        self.assertIn("e2e-nowhere", said)

    def test_measures_without_an_mpi(self):
        outcome = self.measured("pt2pt", "--sizes", "64", "--mode", "software", "--mpiexec", "/nowhere/mpiexec")
        self.assertIn("pip install mpich", outcome["reason"])
        self.assert_measured(outcome, {"raw TCP socket", "Penstock software, without MPI", "raw limit, software"}, op="latency")

    def test_ranks_that_are_interrupted_leave_no_memory(self):
        job = self.start("bench", "run", "halo", "--repeat", "1000", "--mpiexec", MPIEXEC, start_new_session=True,
                         environment=clean_environment(PENSTOCK_PYTHON=PYTHON))
        made = self.wait_for(lambda: segments_of(processes_of(self)), "ranks of MPICH")
        os.killpg(job.pid, signal.SIGINT)
        out, _ = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 130, out)
        self.wait_for(lambda: not any(path.exists() for path in made), "their memory's end")

    def test_without_rich_or_python(self):
        bare = self.folder / "bare"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True, capture_output=True)
        with_bare = clean_environment(PENSTOCK_PYTHON=bare / "bin/python")
        done = self.penstock("bench", "run", "coherence", status=1, environment=with_bare)
        self.assertIn("-m pip install rich", done.stderr)
        self.assertIn("coherence", self.penstock("bench", "list", environment=with_bare).stdout)
        done = self.penstock("bench", "list", status=1, environment=clean_environment(PENSTOCK_PYTHON="/nowhere"))
        self.assertIn("PENSTOCK_PYTHON=/nowhere is no program", done.stderr)

    def installed(self):
        """Installs only the command and its package, without a build's other files."""
        (self.folder / "bin").mkdir()
        (self.folder / "lib/penstock/python").mkdir(parents=True)
        shutil.copy(PENSTOCK, self.folder / "bin")
        (self.folder / "lib/penstock/python/penstock").symlink_to(SOURCE / "python/penstock")
        return self.folder / "bin/penstock"

    def test_the_build_s_environment_is_found(self):
        environment = Path(PENSTOCK).resolve().parents[1] / "python/environment/bin/python3"
        if not environment.exists():
            self.skipTest("ci/install.sh run has made no .venv beside this build")
        nowhere = {**clean_environment(), "PATH": "/nowhere"}
        listed = self.penstock("bench", "list", environment=nowhere).stdout
        self.assertEqual(listed.splitlines()[0].split(), ["experiment", "what", "it", "measures", "source", "needs"])
        done = self.penstock("bench", "run", "coherence", "--quick", "--sizes", "64", "--repeat", "1", environment=nowhere)
        self.assertIn("clflush", done.stdout)
        done = subprocess.run([self.installed(), "bench", "list"], capture_output=True, text=True, env=nowhere)
        self.assertEqual(done.returncode, 1)
        self.assertIn("apt install python3", done.stderr)

    def test_one_core(self):
        core = min(os.sched_getaffinity(0))
        folder = self.folder / "report"
        done = subprocess.run([PENSTOCK, "bench", "run", "limits", "placement", "coherence", "--quick", "--sizes", "64", "--repeat",
                               "1", "--report", folder, "--mpiexec", MPIEXEC], capture_output=True, text=True, timeout=200,
                              env=clean_environment(PENSTOCK_PYTHON=PYTHON), preexec_fn=lambda: os.sched_setaffinity(0, {core}))
        results = json.loads((folder / "results.json").read_text())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(any("one CPU only" in words for words in results["warnings"]))
        for name in ("limits", "placement"):
            self.assertEqual(results["experiments"][name]["status"], "absent", results["experiments"][name])
        self.assertTrue(results["experiments"]["coherence"]["rows"])

    def test_output_that_goes_nowhere(self):
        environment = clean_environment(PENSTOCK_PYTHON=PYTHON)
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([PENSTOCK, "bench", "list"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, env=environment)
        self.assertEqual((done.returncode, done.stderr), (1, "penstock: error: cannot write the output: No space left on device\n"))
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run([PENSTOCK, "bench", "list"], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, env=environment)
        os.close(writing)
        self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, ""))

    def test_results_that_find_no_room(self):
        done = self.bench("run", "coherence", "--quick", "--sizes", "64", "--repeat", "1", "--json", "/proc/nowhere/a.json", status=1)
        self.assertIn("cannot write /proc/nowhere/a.json: No such file or directory", done.stderr)
        self.assertEqual(done.stdout, "")  # nothing was measured for it

    def test_a_pipe_takes_no_results(self):
        """Which replace a file at once. Opening a pipe would wait for its reader."""
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for option in ("--json", "--csv"):
            done = self.bench("run", "coherence", "--quick", "--sizes", "64", "--repeat", "1", option, pipe, status=1)
            self.assertIn(f"cannot write {pipe}: it is a pipe or a device, and results replace a file", done.stderr)
            self.assertEqual(done.stdout, "")

    def test_a_socket_to_another_host(self):
        """Which is this one."""
        program = Path(PENSTOCK).parent / "socket_bench"
        server = subprocess.Popen([program, "--serve", "--port", "0"], stdout=subprocess.PIPE, text=True)
        try:
            port = server.stdout.readline().split("port ")[1].split(";")[0]
            outcome = self.measured("table1", "--procs", "1", "--peer", f"localhost:{port}")
            for op in ("latency", "bandwidth"):
                self.assert_measured(outcome, {f"raw TCP socket to localhost:{port}"}, op=op, bytes=8)
        finally:
            server.terminate()
            server.communicate()
        done = subprocess.run([program, "--peer", f"localhost:{port}"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"start 'socket_bench --serve --port {port}' on that host", done.stderr)

    def test_folder_that_cannot_be_written(self):
        done = self.bench("run", "coherence", "--quick", "--sizes", "64", "--repeat", "1", "--report", "/proc/nowhere", status=1)
        self.assertIn("cannot write /proc/nowhere: No such file or directory", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_an_interruption_keeps_what_was_measured(self):
        folder = self.folder / "report"
        job = self.start("bench", "run", "coherence", "pt2pt", "--sizes", "64", "--repeat", "1000", "--report", folder, "--mpiexec",
                         MPIEXEC, environment=clean_environment(PENSTOCK_PYTHON=PYTHON))
        rounds = set()  # a process each

        def third_round():
            children = Path(f"/proc/{job.pid}/task/{job.pid}/children").read_text().split()
            rounds.update(pid for pid in children if "memory_bench" in name_of(pid))
            return len(rounds) >= 3

        self.wait_for(third_round, "three rounds")
        job.send_signal(signal.SIGINT)
        out, _ = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 130, out)
        self.assertIn("what was measured is kept", out)
        found = json.loads((folder / "results.json").read_text())["experiments"]
        self.assertEqual(found["coherence"]["status"], "interrupted")
        self.assertTrue(found["coherence"]["rows"])
        self.assertNotIn("pt2pt", found)
        left = {path.name for path in SHM.glob("penstock.penstock-bench-*")}
        self.assertFalse(left & {f"penstock.penstock-bench-{pid}" for pid in rounds})

    def test_ended_program_removes_its_pool(self):
        programs = (("memory_bench", "--size", "64M"), ("ring_bench", "--rounds", "1000"), ("cells_bench", "--ranks", "4"),
                    ("penstock", "bench", "footprint", "--ranks", "64"))
        for number, (program, *arguments) in enumerate(programs):
            job = subprocess.Popen([Path(PENSTOCK).parent / program, *arguments], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=clean_environment())
            pool = SHM / f"penstock.penstock-bench-{job.pid}"
            while job.poll() is None and not pool.exists():
                pass
            job.send_signal((signal.SIGTERM, signal.SIGINT)[number % 2])
            job.wait(timeout=60)
            self.assertFalse(pool.exists(), program)

    def test_compare(self):
        first, second = self.folder / "a.json", self.folder / "b.json"
        self.bench("run", "coherence", "--quick", "--sizes", "64", "--repeat", "2", "--json", first)
        results = json.loads(first.read_text())
        for row in results["experiments"]["coherence"]["rows"]:
            for each in STATISTICS:
                row[each] *= 3
        second.write_text(json.dumps(results))
        self.assertIn(" 0 worse", self.bench("compare", first, first).stdout)
        self.assertRegex(self.bench("compare", first, second, status=3).stdout, r"coherence +\S.*worse")
        for text, says in (('{"schema": 99}', "has schema 99, this version reads schema 1"), ('{"schema": 1', "is no JSON"),
                           ('{"schema": 1, "experiments": {"a": 3}}', "a: found int, needed dict"),
                           ('{"schema": 1, "experiments": null}', "experiments: found NoneType"),
                           ('{"schema": 1}', "penstock, commit, command, started is missing")):
            second.write_text(text)
            said = self.bench("compare", first, second, status=1).stderr
            self.assertIn(says, said)
            self.assertNotIn("Traceback", said)


if __name__ == "__main__":
    unittest.main()
