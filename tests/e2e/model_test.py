"""penstock model collectives: its output and its errors. The tests of src/model check the figures."""

import json
import unittest

from support import PYTHON, Case, clean_environment


class Model(Case):
    def facts(self, *arguments):
        return json.loads(self.penstock("model", "collectives", "--json", *arguments).stdout)

    def test_growth_is_the_published_one(self):
        facts = self.facts("--growth")
        self.assertEqual(len(facts["growth"]), 6)
        self.assertTrue(all(each["within_5_percent"] for each in facts["growth"]), facts["growth"])
        self.assertEqual(facts["calls"], [])
        printed = self.penstock("model", "collectives", "--growth").stdout
        self.assertIn("WITHIN 5 %", printed)
        self.assertNotIn("  no  ", printed)
        for said in (printed, *(each["note"] for each in facts["growth"])):
            self.assertIn("were chosen to fit", said)
        self.assertEqual([each["chunks"] for each in facts["growth"]][2:4], [[2], [2]])

    def test_calls_have_plans_and_networks(self):
        facts = self.facts("--collective", "allreduce,scan", "--nodes", "3,4", "--sizes", "1K,1M", "--per-node", "2",
                           "--platform", "cpu")
        self.assertEqual(len(facts["calls"]), 8)
        self.assertEqual(facts["growth"], [])
        for call in facts["calls"]:
            self.assertEqual(call["ranks_per_node"], 2)
            self.assertEqual(call["choice"], call["plans"][0])
            self.assertEqual(call["fastest"]["seconds"], min(plan["seconds"] for plan in call["plans"]))
            names = [each["name"] for each in call["networks"]]
            self.assertEqual(names, ["InfiniBand", "TCP", "NVLink"] if call["collective"] == "allreduce" else [])

    def test_other_values(self):
        slow = self.facts("--collective", "allgather", "--nodes", "6", "--sizes", "4M", "--set", "device=2,devices=3")
        fast = self.facts("--collective", "allgather", "--nodes", "6", "--sizes", "4M")
        self.assertEqual(slow["platform"]["devices"], 3)
        self.assertIn({"name": "device", "value": 2.0, "unit": "GB/s", "source": "given by --set"}, slow["platform"]["values"])
        self.assertGreater(slow["calls"][0]["choice"]["seconds"], 2 * fast["calls"][0]["choice"]["seconds"])

    def test_platforms_have_sources(self):
        listed = self.facts("--list")
        self.assertEqual([each["name"] for each in listed], ["cccl", "gpu", "cpu", "niagara"])
        self.assertTrue(all(value["source"] for each in listed for value in each["values"]))

    def test_refusals(self):
        for arguments, says in (
                (["--platform", "none"], "there is no platform 'none'; there are cccl, gpu"),
                (["--platform", ""], "--platform: is empty"),
                (["--set", "fast=1"], "a platform has no 'fast'"),
                (["--set", "device=fast"], "is no NAME=NUMBER with a number from 0"),
                (["--set", "duplex=2"], "duplex=2: 0 or 1 is needed"),
                (["--set", "link=1e-9"], "at least 0.001 GB/s is needed"),
                (["--collective", "sum"], "there is no collective 'sum'; there are barrier"),
                (["--nodes", "64", "--per-node", "16"], "64 nodes of 16 ranks are 1024 ranks; up to 512"),
                (["--sizes", "2G", "--nodes", "2"], "2G bytes a rank: 4 to 1G are modelled"),
                (["--sizes", "3", "--nodes", "2"], "3 bytes a rank: 4 to 1G are modelled"),
                (["--sizes", "much", "--nodes", "2"], "much"),
                (["--nodes", "2", "--sizes", "1K", "--timeline", self.folder / "t.svg"], "--timeline shows one call"),
                (["--nodes", "2", "--sizes", "1K", "--collective", "scan", "--timeline", self.folder / "t.txt"], "t.txt"),
                (["--nodes", "2", "--sizes", "1K", "--collective", "scan", "--timeline", "/proc/none/t.svg"], "/proc/none/t.svg")):
            self.refused("model", "collectives", *arguments, says=says, status=1 if says.startswith("/proc") else 2)
        for option in ("--nodes", "--per-node"):
            for value in ("0", "257", "two"):
                done = self.penstock("model", "collectives", option, value, status=None)
                self.assertNotIn(done.returncode, (0, -6, -11), (option, value))
                self.assertIn(option, done.stderr)

    def test_a_pool_that_costs_nothing(self):
        free = "device=0,link=0,pool=0,write=0,read=0,memory=0,reduce=0,load=0,store=0,fence=0"
        arguments = ["--platform", "cpu", "--nodes", "1,2", "--sizes", "4,1K", "--collective", "allreduce", "--set", free]
        for call in self.facts(*arguments)["calls"]:
            self.assertEqual(call["fastest"]["seconds"], 0)
        self.assertNotIn("inf", self.penstock("model", "collectives", *arguments).stdout.replace("InfiniBand", ""))

    def test_experiment(self):
        folder = self.folder / "report"
        self.penstock("bench", "run", "scale", "--quick", "--report", folder, timeout=120,
                      environment=clean_environment(PENSTOCK_PYTHON=PYTHON))
        outcome = json.loads((folder / "results.json").read_text())["experiments"]["scale"]
        self.assertEqual(outcome["status"], "ok", outcome["reason"])
        series = {row["series"] for row in outcome["rows"]}
        self.assertLessEqual({"pool, the engine's choice", "pool, the fastest plan", "pool of 6 devices",
                              "InfiniBand, 100% of its line", "CCCL, Figure 10, least"}, series)
        self.assertIn("growth of alltoall over 3 nodes", (folder / "report.html").read_text())


if __name__ == "__main__":
    unittest.main()
