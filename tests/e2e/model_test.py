"""penstock model collectives: what it prints and refuses; the figures themselves are src/model's tests."""

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
        self.refused("model", "collectives", "--platform", "none", says="there is no platform 'none'; there are cccl, gpu")
        self.refused("model", "collectives", "--set", "fast=1", says="a platform has no 'fast'")
        self.refused("model", "collectives", "--collective", "sum", says="there is no collective 'sum'; there are barrier")
        self.refused("model", "collectives", "--nodes", "64", "--per-node", "16", says="64 nodes of 16 ranks are 1024 ranks; up to 512")
        self.refused("model", "collectives", "--sizes", "2G", "--nodes", "2", says="2G bytes a rank: 4 to 1G are modelled")

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
