"""penstock bench: figures of this machine. That they are printed, never what they are."""
import json
import pathlib
import subprocess
import unittest

from support import MPIEXEC, PENSTOCK, PYTHON, SOURCE, Case, clean_environment


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
        self.assertGreater(pair, 0.5)  # its cells alone are 512 KiB

    def test_footprint_of_too_many(self):
        self.refused("bench", "footprint", "--ranks", "1", says="1 ranks that talk to 4 each cannot be")
        self.refused("bench", "footprint", "--size", "64M", says="make a larger pool")


class MpiBenches(Case):
    """The scripts that measure MPI programs over each transport."""

    def figures(self, script, *arguments):
        """What was printed, and {name: {key: value}} of what was written."""
        written = self.folder / "figures.json"
        done = subprocess.run([PYTHON, "-B", SOURCE / "bench" / script, "--penstock", PENSTOCK, "--mpiexec",
                               MPIEXEC, "--rounds", "1", "--json", written, *arguments],
                              capture_output=True, text=True, timeout=200, env=clean_environment())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        figures = json.loads(written.read_text())
        self.assertTrue(all(value > 0 for keys in figures.values() for values in keys.values()
                            for value in values), figures)
        return done.stdout, figures

    def assert_rows(self, printed, *names):
        rows = {line[2:].split("  ")[0] for line in printed.splitlines() if line.startswith("  ")}
        self.assertLessEqual(set(names), rows, printed)

    def test_transports(self):
        printed, figures = self.figures("mpi_transports.py", "--sizes", "64", "4096")
        self.assert_rows(printed, "TCP", "MPICH's own shared memory", "libfabric shm",
                         "Penstock software", "Penstock hardware")
        self.assertEqual(set(figures["TCP"]), {"latency 64", "latency 4096", "bandwidth 64",
                                               "bandwidth 4096"})

    def test_placements(self):
        for test in ("latency", "bandwidth", "bibw"):
            printed, figures = self.figures("placements.py", test, "--sizes", "64", "--mode", "software",
                                            "hardware")
            self.assert_rows(printed, *figures)
            self.assertEqual(set(figures), {"TCP, HH"} | {f"Penstock {mode}, {place}"
                                                          for mode in ("software", "hardware")
                                                          for place in ("HH", "HD", "DH", "DD")})

    def test_one_sided(self):
        for test in ("latency", "bandwidth"):
            printed, figures = self.figures("one_sided.py", test, "--sizes", "64", "--op", "put",
                                            "fetch_and_op", "--sync", "pscw", "lock", "--mode",
                                            "software", "hardware")
            self.assert_rows(printed, "a raw copy past the cache", *figures)
            self.assertEqual(set(figures), {"TCP", "MPICH's own shared memory", "Penstock software",
                                            "Penstock hardware"})
            self.assertEqual(set(figures["TCP"]), {"put pscw 64", "put lock 64", "raw none 64",
                                                   "fetch_and_op pscw 8", "fetch_and_op lock 8"})

    def test_collectives(self):
        printed, figures = self.figures("collectives.py", "--sizes", "64", "70000", "--ops", "barrier", "allreduce")
        self.assert_rows(printed, "raw limit", *figures)
        self.assertIn("how many times better Penstock software is", printed)
        self.assertEqual(set(figures["Penstock hardware"]), {"barrier 64", "allreduce 64", "allreduce 70000"})

    def test_torch_collectives(self):
        if not (SOURCE / ".venv-torch/bin/python").exists() or not (pathlib.Path(PENSTOCK).parents[1] / "python/penstock/torch").is_dir():
            self.skipTest("PyTorch's back end is not built")
        printed, figures = self.figures("torch_collectives.py", "--sizes", "1024", "70000", "--ranks", "2",
                                        "--ops", "all_reduce", "--train", "0", "--calls", "20")
        self.assert_rows(printed, "gloo", "Penstock", "raw limit")
        self.assertEqual(set(figures["Penstock"]), {f"all_reduce {size} {what}" for size in (1024, 70000)
                                                    for what in ("time", "CPU")})

    def test_halo(self):
        printed, figures = self.figures("halo.py", "--sides", "32", "--steps", "10")
        self.assert_rows(printed, *figures)
        self.assertIn("how many times better Penstock software is", printed)
        self.assertEqual(set(figures["Penstock hardware"]), {"step 32", "exchange 32"})


if __name__ == "__main__":
    unittest.main()
