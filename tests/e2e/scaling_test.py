"""penstock model scaling: CG's messages are those of the program that sends them, and SimGrid replays them."""

import json
import shutil
import subprocess
import unittest

from support import MPIEXEC, PYTHON, SOURCE, Case, clean_environment

CG = SOURCE / "bench/scaling/cg.c"
PLATFORM = """<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
 <cluster id="c" prefix="n" suffix="" radical="0-63" speed="1Gf" bw="1GBps" lat="1us" loopback_bw="1GBps" loopback_lat="1us"/>
</platform>
"""


def messages(lines):
    """What a rank begins, sends and waits for, as the words of its trace."""
    words = [line.split()[1:] for line in lines.splitlines()]
    return [tuple(each) for each in words if each and each[0] in ("irecv", "send", "wait")]


class WithoutSimGrid(Case):
    def test_says_what_is_missing(self):
        self.refused("model", "scaling", "--quick", environment=clean_environment(PATH="/nowhere"),
                     says="no smpirun is on the PATH", fix="apt install libsimgrid-dev")

    def test_real_program_solves(self):
        """The same program over real MPI: as many ranks as are asked for, and the same residual."""
        program = self.folder / "cg"
        mpicc = MPIEXEC.replace("mpiexec", "mpicc")
        subprocess.run([mpicc, "-O2", "-Wall", "-Werror", CG, "-lm", "-o", program], check=True)
        residuals = set()
        for ranks in (1, 2, 4):
            done = self.penstock("run", "-n", ranks, "--nodes", min(ranks, 2), "--mpiexec", MPIEXEC, "--", program, "--na", 1400,
                                 timeout=200)
            outer, seconds, residual = done.stdout.split()
            self.assertLess(float(residual), 1e-8)
            residuals.add(residual)
        self.assertEqual(len(residuals), 1)


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
            own.mkdir()
            self.penstock("model", "scaling", "--class", "W", "--nodes", ranks // per_node, "--per-node", per_node, "--traces", own)
            for rank, name in enumerate(list_.read_text().split()):
                sent = messages((self.folder / name).read_text())
                self.assertGreater(len(sent), 300)
                self.assertEqual(messages((own / f"rank-{rank}.txt").read_text()), sent, (ranks, rank))

    def test_parts_make_the_whole(self):
        facts = self.facts("--class", "S", "--nodes", "2,4", "--set", "table1", "--devices", "0,1")
        self.assertEqual(len(facts["cases"]), 8)
        for case in facts["cases"]:
            parts = sum(case[f"{part}_s"] for part in ("compute", "latency", "bandwidth", "contention", "wait"))
            self.assertAlmostEqual(parts, case["total_s"], places=9)
            self.assertGreater(case["latency_s"], 0)
            self.assertGreater(case["bandwidth_s"], 0)
        self.assertTrue(any("over CX-6 Dx takes" in each for each in facts["findings"]), facts["findings"])

    def test_measured_latencies_are_met(self):
        rows = [{"series": "Penstock software", "op": "latency", "metric": "latency_us", "group": None, "procs": 2, "bytes": size,
                 "median": time} for size, time in ((8, 1.2), (4096, 1.7), (65536, 7.3), (1048576, 81.0), (4194304, 341.0))]
        file = self.folder / "results.json"
        file.write_text(json.dumps({"experiments": {"pt2pt": {"rows": rows}}}))
        facts = self.facts("--class", "S", "--nodes", "2", "--measured", file, "--set", "penstock-here", "--devices", "0")
        self.assertEqual([each["network"] for each in facts["calibration"]], ["Penstock software"])
        self.assertLess(facts["calibration"][0]["worst"], 0.05)
        file.write_text(json.dumps({"experiments": {"pt2pt": {"rows": rows[:1]}}}))
        self.refused("model", "scaling", "--measured", file, says="has no latencies of 2 ranks")

    def test_other_programs(self):
        """As SimGrid 3.32 writes them: with waitAny, which it does not replay."""
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

    def test_refusals(self):
        self.refused("model", "scaling", "--nodes", "3", "--set", "table1", says="CG on 24 ranks: a power of two is needed")
        self.refused("model", "scaling", "--nodes", "256", "--set", "table1", says="256 hosts of 8 ranks are 2048 ranks; up to 1024")
        self.refused("model", "scaling", "--class", "E", says="CG has no class 'E'; there are S, W")
        self.refused("model", "scaling", "--set", "none", says="there is no set 'none'; there are table1")
        self.refused("model", "scaling", "--replay", self.folder / "none", "--nodes", "2", says="names no traces")


if __name__ == "__main__":
    unittest.main()
