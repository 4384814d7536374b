"""libnccl-net-penstock.so as NCCL calls it: connections and messages between two processes."""

import os
import subprocess
import unittest

from matching_plans import matching_plan
from support import PENSTOCK, PROGRAMS, Case, clean_environment

PLUGIN = os.path.join(os.path.dirname(os.path.dirname(PENSTOCK)), "lib/libnccl-net-penstock.so")


class NcclNet(Case):
    def setUp(self):
        super().setUp()
        self.program = self.folder / "nccl_net"
        subprocess.run(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", PROGRAMS / "nccl_net.c", "-o", self.program, "-ldl"],
                       check=True)

    def pair(self, version, *more, **environment):
        folder = self.folder / f"{version}-{len(list(self.folder.iterdir()))}"
        folder.mkdir()
        ends = [subprocess.Popen([self.program, str(rank), PLUGIN, folder, str(version), *more], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, env=clean_environment(PENSTOCK_NODE=rank, **environment)) for rank in range(2)]
        return self.outcomes(ends)

    def test_messages(self):
        for mode in ("software", "hardware", "simulated"):
            pool = self.pool("128M", mode)
            for version in (10, 11):
                with self.subTest(mode=mode, version=version):
                    for status, out, err in self.pair(version, PENSTOCK_POOL=pool):
                        self.assertEqual((status, out), (0, "ok\n"), err)

    def test_messages_match_as_planned(self):
        plan = matching_plan(self, 2, 60, 5, any_source=False)
        for status, out, err in self.pair(11, PLAN=plan, PENSTOCK_POOL=self.pool("128M")):
            self.assertEqual((status, out), (0, "ok\n"), err)

    def test_a_death_is_told(self):
        said = self.pair(11, "die", PENSTOCK_POOL=self.pool())
        self.assertEqual(said[0][:2], (0, "error 6\n"), said[0][2])
        self.assertRegex(said[0][2], r"NET/penstock : .*died")

    def test_without_a_pool_there_is_no_device(self):
        for status, out, err in self.pair(11):
            self.assertEqual((status, out), (0, "0 devices\n"), err)
            self.assertIn("NET/penstock : ", err)


if __name__ == "__main__":
    unittest.main()
