"""penstock model scaling: CG's messages are those of the program that sends them, and SimGrid replays them; miniAMR's
are compared with the program itself by tests/conformance/miniamr_suite.py."""

import json
import os
import shutil
import signal
import subprocess
import unittest

from support import MPIEXEC, PYTHON, SOURCE, Case, clean_environment

CG = SOURCE / "lab/bench/scaling/cg.c"
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
 <cluster id="c" prefix="n" suffix="" radical="0-63" speed="1Gf" bw="1GBps" lat="1us" loopback_bw="1GBps" loopback_lat="1us"/>
</platform>
"""


def messages(lines):
    """A rank's operations (begin, send, wait), as the words of its trace."""
    words = [line.split()[1:] for line in lines.splitlines()]
    return [tuple(each) for each in words if each and each[0] in ("irecv", "send", "wait")]


class WithoutSimGrid(Case):
    def test_says_what_is_missing(self):
        self.refused("model", "scaling", "--quick", environment=clean_environment(PATH="/nowhere"),
                     says="no smpirun is on the PATH", fix="apt install libsimgrid-dev")

    def test_the_rest_needs_none(self):
        nowhere = clean_environment(PATH="/nowhere")
        said = self.penstock("model", "collectives", "--collective", "allreduce", "--nodes", "3", "--sizes", "1M", environment=nowhere).stdout
        self.assertIn("allreduce", said)
        for program in ("cg", "miniamr"):
            self.penstock("model", "scaling", "--program", program, "--class", "S", "--nodes", "2", "--traces", self.folder / program,
                          environment=nowhere)
            self.assertEqual(len((self.folder / program / "traces").read_text().split()), 16)

    def test_real_program_solves(self):
        """The same program over real MPI: as many ranks as are asked for, and the same residual."""
        program = self.folder / "cg"
        mpicc = MPIEXEC.replace("mpiexec", "mpicc")
        subprocess.run([mpicc, "-O2", "-Wall", "-Werror", CG, "-lm", "-o", program], check=True)
        residuals = set()
        for ranks in (1, 2, 4):
            done = self.penstock("run", "-n", ranks, "--nodes", min(ranks, 2), "--mpiexec", MPIEXEC, "--", program, "--na", 1400,
                                 timeout=200)
            outer, seconds, residual, computing = done.stdout.split()
            self.assertLessEqual(float(computing), float(seconds) * 1.001)
            self.assertLess(float(residual), 1e-8)
            residuals.add(residual)
        self.assertEqual(len(residuals), 1)
        # Messages alone: rows of so many entries would take hours to multiply.
        done = self.penstock("run", "-n", 2, "--nodes", 2, "--mpiexec", MPIEXEC, "--", program, "--na", 1400, "--nonzer", 10**9,
                             "--skeleton", "--untimed", 1, timeout=200)
        self.assertEqual(done.stdout.split()[0], "1")


@unittest.skipUnless(shutil.which("smpirun"), "no SimGrid: ci/install.sh scaling")
class Scaling(Case):
    def facts(self, *arguments):
        return json.loads(self.penstock("model", "scaling", "--json", *arguments, timeout=200).stdout)

    def test_messages_are_the_programs(self):
        (self.folder / "platform.xml").write_text(PLATFORM)
        program = self.folder / "cg"
        subprocess.run(["smpicc", "-O1", CG, "-lm", "-o", program], check=True)
        for ranks, per_node in ((8, 8), (16, 8), (32, 8)):
            (self.folder / "hosts").write_text("".join(f"n{rank}\n" for rank in range(ranks)))
            list_ = self.folder / f"run{ranks}"
            subprocess.run(["smpirun", "-np", str(ranks), "-platform", self.folder / "platform.xml", "-hostfile",
                            self.folder / "hosts", "-trace-ti", "-trace-file", list_, program, "--skeleton", "--na", "7000",
                            "--nonzer", "8", "--cfg=smpi/host-speed:1Gf"], check=True, capture_output=True, cwd=self.folder)
            own = self.folder / f"own{ranks}"
            self.penstock("model", "scaling", "--program", "cg", "--class", "W", "--nodes", ranks // per_node, "--per-node", per_node, "--traces", own)
            for rank, name in enumerate(list_.read_text().split()):
                sent = messages((self.folder / name).read_text())
                self.assertGreater(len(sent), 300)
                self.assertEqual(messages((own / f"rank-{rank}.txt").read_text()), sent, (ranks, rank))

    def test_parts_make_the_whole(self):
        facts = self.facts("--class", "S", "--nodes", "1,4", "--set", "table1", "--devices", "0,1")
        self.assertEqual(len(facts["cases"]), 16)
        self.assertEqual([each["name"] for each in facts["programs"]], ["cg", "miniamr"])
        for case in facts["cases"]:
            parts = sum(case[f"{part}_s"] for part in ("compute", "latency", "bandwidth", "contention", "wait"))
            self.assertAlmostEqual(parts, case["total_s"], places=9)
            self.assertGreater(case["wait_s"], -2e-6)  # SimGrid says whole microseconds
            self.assertGreaterEqual(case["total_s"], case["compute_s"])
            self.assertGreater(case["latency_s"], 0)
            self.assertGreater(case["bandwidth_s"], 0)
        for program in ("cg", "miniamr"):
            self.assertTrue(any(each.startswith(f"{program}, table1: communication over CX-6 Dx") for each in facts["findings"]),
                            facts["findings"])

    def test_sums_take_their_latencies(self):
        """miniAMR's 160 sums of a time step, by recursive doubling, and 60 exchanges: on 2 hosts of one rank a message each."""
        facts = self.facts("--program", "miniamr", "--nodes", "2", "--per-node", "1", "--set", "table1", "--devices", "0")
        case = next(each for each in facts["cases"] if each["network"] == "CX-6 Dx")
        self.assertAlmostEqual(case["latency_s"], (160 + 20) * 18e-6, delta=0.02 * 180 * 18e-6)
        self.assertAlmostEqual(case["compute_s"], 1e-9 * 40 * (20 * 7 + 4) * 64)

    def test_faster_ranks(self):
        slow, fast = (self.facts("--program", "cg", "--class", "S", "--nodes", "2", "--set", "table1", "--devices", "0", "--gflops", speed)
                      for speed in (1, 4))
        for one, other in zip(slow["cases"], fast["cases"]):
            self.assertAlmostEqual(one["compute_s"], 4 * other["compute_s"])
            self.assertAlmostEqual(one["total_s"] - one["compute_s"], other["total_s"] - other["compute_s"], delta=0.05 * one["total_s"])

    def test_interrupted(self):
        """Leaves neither a folder nor a process behind."""
        job = self.start("model", "scaling", "--program", "cg", "--nodes", "16", "--set", "section4.2",
                         environment=clean_environment(TMPDIR=self.folder), start_new_session=True)
        self.wait_for(lambda: list(self.folder.glob("penstock-scaling-*/run-0.out")), "SimGrid runs")
        os.kill(job.pid, signal.SIGINT)  # not its children, which a terminal would reach
        said, _ = job.communicate(timeout=60)
        self.assertEqual(job.returncode, 1)
        self.assertIn("interrupted by signal 2", said)
        self.assertEqual(list(self.folder.iterdir()), [])
        running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
        self.assertNotIn(str(self.folder), running)

    def measured(self, times):
        """A file as `penstock bench run pt2pt` leaves it, of microseconds by operation and size."""
        rows = [{"series": "Penstock software", "op": op, "metric": "latency_us" if op == "latency" else "time_us", "group": None,
                 "procs": 2, "bytes": size, "median": time} for op, all_ in times.items() for size, time in all_.items()]
        file = self.folder / "results.json"
        file.write_text(json.dumps({"experiments": {"pt2pt": {"rows": rows}}}))
        return file

    def test_measured_latencies_are_met(self):
        latency = {8: 1.2, 4096: 1.7, 65536: 7.3, 1048576: 81.0, 4194304: 341.0}
        exchange = {8: 1.5, 4096: 2.1, 65536: 11.0, 1048576: 130.0, 4194304: 545.0}
        arguments = ["--program", "cg", "--class", "S", "--nodes", "2", "--set", "penstock-here", "--devices", "0", "--measured"]
        file = self.measured({"latency": latency, "exchange": exchange, "self": {8: 0.5, 1048576: 20}})
        facts = self.facts(*arguments, file)
        self.assertEqual([each["network"] for each in facts["calibration"]], ["Penstock software"])
        self.assertLess(facts["calibration"][0]["worst"], 0.05)
        self.assertLess(facts["calibration"][0]["worst_exchange"], 0.05)
        # 53 sums and 26 products, each a message to the other and one to itself: of 1.5 us, and by lines between two sizes.
        other, to_self = 2.1 + (5600 - 4096) / 61440 * 8.9, 0.5 + 5592 / 1048568 * 19.5
        case = self.facts(*arguments, file, "--per-node", "1")["cases"][0]
        self.assertAlmostEqual((case["total_s"] - case["compute_s"]) * 1e6, 53 * 1.5 + 26 * (other + to_self), delta=6)
        duplex = self.facts(*arguments, self.measured({"latency": latency}))
        self.assertLess(duplex["cases"][0]["total_s"], facts["cases"][0]["total_s"])
        self.refused("model", "scaling", "--measured", self.measured({"latency": {8: 1.2}}), says="has no latencies of 2 ranks")

    def test_other_programs(self):
        """Traces as SimGrid 3.32 writes them, with waitAny, which it cannot replay."""
        for rank in range(2):
            begun = f"{rank} irecv {1 - rank} 0 100 0\n" * 2 + f"{rank} isend {1 - rank} 0 100 0\n" * 2
            (self.folder / f"{rank}.txt").write_text(f"{rank} init\n" + (begun + f"{rank} waitAny 4\n" * 4) * 3
                                                     + f"{rank} compute 1000000\n{rank} finalize\n")
        (self.folder / "list").write_text("0.txt\n1.txt\n")
        facts = self.facts("--replay", self.folder / "list", "--nodes", "2", "--set", "table1", "--devices", "0")
        self.assertEqual([case["ranks"] for case in facts["cases"]], [2, 2, 2])
        self.assertAlmostEqual(facts["cases"][0]["compute_s"], 0.001)
        self.assertGreater(facts["cases"][0]["total_s"], 0.001)

    def test_experiment(self):
        folder = self.folder / "report"
        self.penstock("bench", "run", "scaling", "--quick", "--report", folder, timeout=200,
                      environment=clean_environment(PENSTOCK_PYTHON=PYTHON))
        outcome = json.loads((folder / "results.json").read_text())["experiments"]["scaling"]
        self.assertEqual(outcome["status"], "ok", outcome["reason"])
        self.assertLessEqual({"CXL", "CXL, a pool of 1 device", "CX-6 Dx", "Ethernet"}, {row["series"] for row in outcome["rows"]})
        self.assertEqual({row["group"] for row in outcome["rows"]}, {"cg, table1", "miniamr, table1"})
        self.assertIn("contention of a time step of miniAMR", (folder / "report.html").read_text())

    def test_check_on_two_ranks(self):
        """Shows measured beside simulated figures; their distance depends on the machine's load, so it is not checked."""
        folder = self.folder / "report"
        self.penstock("bench", "run", "scaling_check", "--quick", "--repeat", "1", "--mode", "software", "--mpiexec", MPIEXEC, "--report",
                      folder, timeout=300, status=None, environment=clean_environment(PENSTOCK_PYTHON=PYTHON))
        outcome = json.loads((folder / "results.json").read_text())["experiments"]["scaling_check"]
        if outcome["status"] == "absent":
            self.skipTest(outcome["reason"])
        self.assertIn(outcome["status"], ("ok", "partial"), outcome["reason"])
        series = {(row["series"], row["op"]) for row in outcome["rows"]}
        self.assertIn(("Penstock software", "CG class S, messages alone"), series)
        if "is not simulated" not in (outcome["reason"] or ""):
            self.assertIn(("Penstock software, simulated", "CG class S, messages alone"), series)
            self.assertIn(("TCP, simulated", "CG class S, with computation"), series)

    def test_refusals(self):
        nowhere = self.folder / "none"
        traces = self.folder / "1.txt"
        for arguments, says in (
                (["--program", "cg", "--nodes", "3", "--set", "table1"], "CG on 24 ranks: a power of two is needed"),
                (["--program", "miniamr", "--nodes", "3", "--set", "table1"], "miniAMR on 24 ranks: a power of two is needed"),
                (["--program", "lu"], "there is no program 'lu'; there are cg, miniamr"),
                (["--nodes", "256", "--set", "table1"], "cg on 256 hosts are 2048 ranks; up to 1024"),
                (["--class", "E"], "CG has no class 'E'; there are S, W"),
                (["--class", "S", "--nodes", "32"], "class S of CG has 1400 elements, which 256 ranks do not divide"),
                (["--set", "none"], "there is no set 'none'; there are table1"),
                (["--set", "penstock-here"], "and with --measured penstock-here"),
                (["--measured", nowhere], "penstock bench run pt2pt --json"),
                (["--measured", __file__], "is no result of penstock bench run pt2pt"),
                (["--replay", nowhere, "--nodes", "2"], "names no traces"),
                (["--replay", __file__], "which cannot be read"),
                (["--program", "cg", "--traces", "/proc/none"], "cannot write /proc/none")):
            of_a_file = {"--measured", "--replay", "--traces"} & set(arguments)
            self.refused("model", "scaling", *arguments, says=says, status=1 if of_a_file else 2)
        traces.write_text("0 init\n1 send 0 0 1 0\n")
        nowhere.write_text("1.txt\n")
        self.refused("model", "scaling", "--replay", nowhere, says="has the line '1 send 0 0 1 0', and lines '0 ACTION ...' are needed")
        (self.folder / "2.txt").write_text("1 init\n1 allreduce 1 0 0\n1 finalize\n")
        traces.write_text("0 init\n0 finalize\n")
        nowhere.write_text("1.txt\n2.txt\n")
        self.refused("model", "scaling", "--replay", nowhere, says="rank 1 takes part in 1 collectives and rank 0 in 0")
        nowhere.write_text("1.txt\n")
        traces.write_text("0 init\n0 dance 1\n0 finalize\n")
        self.refused("model", "scaling", "--replay", nowhere, "--per-node", "1", says="SimGrid has not replayed")

    def test_options_have_ranges(self):
        for option, wrong in (("--nodes", ("0", "257", "two")), ("--per-node", ("0", "65", "x")), ("--devices", ("-1", "65", "x")),
                              ("--gflops", ("0", "-1", "fast"))):
            for value in wrong:
                done = self.penstock("model", "scaling", option, value, status=None)
                self.assertNotIn(done.returncode, (0, -6, -11), (option, value))
                self.assertIn(option, done.stderr)
        done = self.penstock("model", "scaling", "--replay", "x", "--program", "cg", status=None)
        self.assertIn("excludes", done.stderr)


if __name__ == "__main__":
    unittest.main()
