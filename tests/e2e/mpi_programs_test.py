"""The example and the benchmarks in C with MPI: correct results over each pool and over TCP."""

import subprocess
import unittest

from support import MPIEXEC, SOURCE, VENV, Case, clean_environment

HALO = "examples/halo.c"
MESSAGES = "lab/bench/mpi/messages.c"
ONE_SIDED = "lab/bench/mpi/one_sided.c"
OPERATIONS = ["put", "get", "accumulate", "fetch_and_op"]
SYNCHRONIZATIONS = ["pscw", "fence", "lock", "exclusive", "lock_all"]


class MpiProgram(Case):
    def program(self, source):
        program = self.folder / "program"
        subprocess.run([VENV / "bin/mpicc", "-O2", "-Wall", "-Wextra", "-Werror", SOURCE / source, "-o",
                        program], check=True, env=clean_environment())
        return program

    def run_ranks(self, ranks, mode, *command, nodes=2, **more):
        return self.penstock("run", "--mpiexec", MPIEXEC, "-n", ranks, "--nodes", nodes, "--mode", mode,
                             "--", *command, **more)

    def over_tcp(self, ranks, *command):
        environment = clean_environment(MPIR_CVAR_CH4_NETMOD="ofi", FI_PROVIDER="tcp",
                                        MPIR_CVAR_NOLOCAL=1)
        return subprocess.run([MPIEXEC, "-n", str(ranks), *map(str, command)], text=True, timeout=120,
                              capture_output=True, env=environment)


class Halo(MpiProgram):
    def assert_ok(self, done, ranks, dims):
        self.assertIn(f"halo: ok: {ranks} ranks as {dims}, 37 x 41 cells, 30 steps", done.stdout,
                      done.stderr)

    def in_mode(self, mode):
        program = self.program(HALO)
        for ranks, nodes, dims in ((1, 1, "1 x 1"), (2, 2, "2 x 1"), (4, 2, "2 x 2"), (6, 3, "3 x 2")):
            self.assert_ok(self.run_ranks(ranks, mode, program, 37, 41, 30, nodes=nodes), ranks, dims)

    def test_software(self):
        self.in_mode("software")

    def test_hardware(self):
        self.in_mode("hardware")

    def test_simulated(self):
        self.in_mode("simulated")

    def test_over_tcp(self):
        self.assert_ok(self.over_tcp(4, self.program(HALO), 37, 41, 30), 4, "2 x 2")


class Placements(MpiProgram):
    def in_mode(self, mode):
        program = self.program(MESSAGES)
        for place in ("HH", "HD", "DH", "DD"):
            for test in ("latency", "bandwidth", "bibw", *(("exchange", "self") if place == "HH" else ())):
                done = self.run_ranks(2, mode, program, test, "--place", place, "--sizes",
                                      "1,4000,70000", "--iterations", "3", "--validate")
                rows = [line.split() for line in done.stdout.splitlines()]
                self.assertEqual([row[0] for row in rows], ["1", "4000", "70000"])
                self.assertTrue(all(float(row[1]) > 0 for row in rows), rows)

    def test_software(self):
        self.in_mode("software")

    def test_hardware(self):
        self.in_mode("hardware")

    def test_simulated(self):
        self.in_mode("simulated")

    def test_nonsense(self):
        program = self.program(MESSAGES)
        for arguments, says in ((["latency", "--place", "HX"], "none of HH, HD, DH, DD"),
                                (["speed"], "'speed' is unknown"), ([], "name one test"),
                                (["latency", "--sizes", "8,x"], "'x' is no number")):
            done = self.run_ranks(2, "software", program, *arguments, status=None)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(says, done.stdout + done.stderr)


class OneSided(MpiProgram):
    def in_mode(self, mode, jobs=((2, "latency"), (2, "bandwidth"), (4, "latency"), (4, "bandwidth"))):
        program = self.program(ONE_SIDED)
        for ranks, test in jobs:
            for window in ("win_allocate", "win_create", "alloc_mem"):
                with self.subTest(ranks=ranks, test=test, window=window):
                    self.all_of(self.run_ranks(
                        ranks, mode, program, test, "--op", ",".join(OPERATIONS + ["raw"]), "--sync",
                        ",".join(SYNCHRONIZATIONS), "--window", window, "--window-bytes", "50000",
                        "--sizes", "8,4000", "--iterations", "2", "--validate"))

    def all_of(self, done):
        """Checks that each combination has a row with positive figures."""
        rows = [line.split() for line in done.stdout.splitlines() if not line.startswith("#")]
        wanted = [[op, sync, size] for op in OPERATIONS for sync in SYNCHRONIZATIONS
                  for size in (["8"] if op == "fetch_and_op" else ["8", "4000"])]
        wanted += [["raw", "none", "8"], ["raw", "none", "4000"]]
        self.assertEqual([row[:3] for row in rows], wanted)
        self.assertTrue(all(float(row[3]) > 0 for row in rows), rows)

    def test_software(self):
        """Each number of ranks and each test; those of make test-long pair all of them."""
        self.in_mode("software", ((2, "latency"), (4, "bandwidth")))

    def test_hardware(self):
        self.in_mode("hardware")

    def test_simulated(self):
        self.in_mode("simulated")

    def test_over_tcp(self):
        done = self.over_tcp(2, self.program(ONE_SIDED), "latency", "--op", ",".join(OPERATIONS),
                             "--sizes", "8,70000", "--iterations", "2", "--validate")
        self.assertIn("accumulate pscw 70000", done.stdout, done.stderr)

    def test_nonsense(self):
        program = self.program(ONE_SIDED)
        for ranks, arguments, says in ((3, ["latency"], "an even number of ranks, has 3"),
                                       (2, ["latency", "--sync", "none"], "'none' is unknown"),
                                       (2, ["latency", "--op", "accumulate", "--sizes", "12"],
                                        "multiples of 8"),
                                       (2, ["latency", "--window-bytes", "64"], "the largest size")):
            done = self.run_ranks(ranks, "software", program, *arguments, status=None)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(says, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
