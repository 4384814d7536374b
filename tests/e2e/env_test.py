"""penstock env: exports that work with the user's mpiexec, and the table of variables."""

import json
import shutil
import subprocess
import unittest
from pathlib import Path

from support import MPIEXEC, PENSTOCK, PROGRAMS, PYTHON, WINDOW_LIBRARY, Case, clean_environment


class Env(Case):
    def exports(self, spec, *options, **more):
        done = self.penstock("env", "--mpi", "mpich", "--pool", spec, *options,
                             environment=clean_environment(**more))
        lines = [line for line in done.stdout.splitlines() if line and not line.startswith("#")]
        self.assertTrue(all(line.startswith("export ") for line in lines), lines)
        return done.stdout

    def with_exports(self, exports, command, **more):
        return subprocess.run(["sh", "-c", f"{exports}\n{command}"], capture_output=True, text=True,
                              env=clean_environment(**more), timeout=120)

    def test_plain_mpiexec(self):
        spec = self.pool("128M", "software")
        exports = self.exports(spec, "--nodes", "2")
        done = self.with_exports(exports, f"{MPIEXEC} -n 4 {PYTHON} {PROGRAMS / 'all_to_all.py'}",
                                 PENSTOCK_SUMMARY=1)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("all to all: ok", done.stdout)
        self.assertIn(spec, done.stdout + done.stderr)

    def test_mpi4py_abi_variable_is_unset(self):
        """MPI4PY_MPIABI makes mpi4py take the first library of that ABI, whatever MPI4PY_LIBMPI says."""
        spec = self.pool("64M", "software")
        wrong = clean_environment(MPI4PY_MPIABI="openmpi")
        exports = self.penstock("env", "--mpi", "mpich", "--pool", spec, environment=wrong).stdout
        self.assertIn("\nunset MPI4PY_MPIABI\n", exports)
        self.assertIn("# MPI4PY_MPIABI=openmpi is unset", exports)
        done = self.with_exports(exports, "echo ${MPI4PY_MPIABI-not set}", MPI4PY_MPIABI="openmpi")
        self.assertEqual(done.stdout, "not set\n")
        facts = json.loads(self.penstock("env", "--mpi", "mpich", "--pool", spec, "--json", environment=wrong).stdout)
        self.assertIsNone(facts["exports"]["MPI4PY_MPIABI"])
        done = self.penstock("run", "-n", "2", "--", PYTHON, PROGRAMS / "all_to_all.py", environment=wrong)
        self.assertIn("all to all: ok", done.stdout)
        self.assertIn("penstock run: MPI4PY_MPIABI=openmpi is unset", done.stderr)
        self.assertNotIn("MPI4PY_MPIABI", self.exports(spec))

    def test_exports_of_a_failure_report_it(self):
        printed = self.penstock("env", "--mpi", "mpich", "--pool", "shm:no-such-pool", status=1).stdout
        done = self.with_exports(printed, "echo it went on")
        self.assertEqual(done.stdout, "")
        self.assertIn("penstock env failed: pool shm:no-such-pool is absent", done.stderr)

    def test_require_without_the_pool(self):
        spec = self.pool("32M", "software")
        exports = self.exports(spec, "--nodes", "2")
        self.penstock("pool", "rm", spec)
        done = self.with_exports(exports, f"{MPIEXEC} -n 2 {PYTHON} {PROGRAMS / 'all_to_all.py'}")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("PENSTOCK_REQUIRE", done.stdout + done.stderr)
        self.assertIn("penstock pool create", done.stdout + done.stderr)

    def test_an_mpi_that_never_asks_the_provider(self):
        """MPICH takes UCX or another provider, so our provider cannot report it."""
        spec = self.pool("128M", "software")
        command = f"{MPIEXEC} -n 2 {PYTHON} {PROGRAMS / 'all_to_all.py'}"
        says = "has not taken libfabric's provider penstock"
        for past_it in ("MPIR_CVAR_CH4_NETMOD=ucx", "FI_PROVIDER=tcp"):
            done = self.with_exports(self.exports(spec, "--nodes", "2"), f"export {past_it}\n{command}")
            self.assertEqual(done.returncode, 78, done.stdout + done.stderr)
            self.assertIn(says, done.stderr)
            self.assertIn(past_it.split("=")[0], done.stderr)
            done = self.with_exports(self.exports(spec, "--nodes", "2", "--allow-fallback"), f"export {past_it}\n{command}")
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(done.stderr.count(says), 1, done.stderr)  # rank 0
        done = self.with_exports(self.exports(spec, "--nodes", "2"), command)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)

    def test_mode_that_disagrees_with_require(self):
        spec = self.pool("32M", "software")
        exports = self.exports(spec, "--nodes", "2", "--mode", "hardware")
        done = self.with_exports(exports, f"{MPIEXEC} -n 2 {PYTHON} {PROGRAMS / 'all_to_all.py'}")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stdout + done.stderr, "software.*hardware|hardware.*software")

    def test_paths_with_blanks_are_quoted(self):
        path = self.folder / "a pool"
        self.penstock("pool", "create", path, "--size", "32M", "--mode", "software")
        exports = self.exports(path)
        done = self.with_exports(exports, 'printf %s "$PENSTOCK_POOL"')
        self.assertEqual(done.stdout, str(path))

    def test_the_pool_is_found_from_another_folder(self):
        path = self.folder / "here" / "pool"
        path.parent.mkdir()
        self.penstock("pool", "create", path, "--size", "32M", "--mode", "software")
        exports = self.penstock("env", "--mpi", "mpich", "--pool", "./pool", cwd=path.parent).stdout
        done = self.with_exports(exports, f'cd /; {PENSTOCK} pool info "$PENSTOCK_POOL"')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(str(path), done.stdout)

    def preloads(self, *options, **more):
        """The value of LD_PRELOAD, or "", in a shell that has evaluated the exports, with `more` as environment."""
        exports = self.exports(self.pool("32M"), *options, **more)
        return self.with_exports(exports, 'printf %s "${LD_PRELOAD-nothing}"', **more).stdout

    def test_window_library_is_preloaded(self):
        self.assertTrue(WINDOW_LIBRARY.is_file())
        self.assertEqual(self.preloads(), str(WINDOW_LIBRARY))
        self.assertEqual(self.preloads("--no-windows"), "nothing")

    def test_other_preloads_come_before_it(self):
        for before in ("libm.so.6", f"{WINDOW_LIBRARY}:libm.so.6", "/elsewhere/libpenstock-mpi.so libm.so.6"):
            self.assertEqual(self.preloads(LD_PRELOAD=before), f"libm.so.6:{WINDOW_LIBRARY}")
        self.assertEqual(self.preloads(LD_PRELOAD="libm.so.6 libdl.so.2"), f"libm.so.6:libdl.so.2:{WINDOW_LIBRARY}")
        self.assertEqual(self.preloads("--no-windows", LD_PRELOAD=f"{WINDOW_LIBRARY}:libm.so.6"), "libm.so.6")
        self.assertEqual(self.preloads("--no-windows", LD_PRELOAD="libm.so.6"), "libm.so.6")

    def test_other_programs_ignore_the_window_library(self):
        exports = self.exports(self.pool("32M"))
        for command, says in (("true", ""), ("ls -d /", "/\n"), (f"{PYTHON} -c 'print(1)'", "1\n"),
                              (f"{PENSTOCK} --version", self.penstock("--version").stdout)):
            done = self.with_exports(exports, command, PENSTOCK_LOG="debug")
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, says, ""), command)

    def test_window_library_reaches_the_ranks(self):
        spec = self.pool("128M")
        command = f"{MPIEXEC} -n 2 {PYTHON} {PROGRAMS / 'preloaded.py'}"
        for options, says in (((), "2 of 2"), (("--no-windows",), "0 of 2")):
            done = self.with_exports(self.exports(spec, "--nodes", "2", *options), command)
            self.assertIn(f"preloaded: {says}", done.stdout, done.stderr)

    def test_window_library_missing(self):
        for place in ("tree", "a tree"):
            program = self.folder / place / "bin/penstock"
            for path, copied in ((program, PENSTOCK), (self.folder / place / "lib/libpenstock-fi.so",
                                                       WINDOW_LIBRARY.with_name("libpenstock-fi.so"))):
                path.parent.mkdir(parents=True)
                shutil.copy(copied, path)
        shutil.copy(WINDOW_LIBRARY, self.folder / "a tree/lib")
        spec = self.pool("32M")
        for place, says, fix in (("tree", f"{self.folder}/tree/lib/libpenstock-mpi.so", "make build"),
                                  ("a tree", f"'{self.folder}/a tree/lib/libpenstock-mpi.so'", "PREFIX=")):
            for command in (["env", "--mpi", "mpich", "--pool", spec], ["run", "-n", "1", "--pool", spec]):
                after = ["--", "true"] if command[0] == "run" else []
                run = lambda *more: subprocess.run([self.folder / place / "bin/penstock", *command, *more, *after],
                                                   capture_output=True, text=True, env=clean_environment())
                done = run()
                self.assertEqual(done.returncode, 1, done.stdout)
                for part in (says, fix, "--no-windows"):
                    self.assertIn(part, done.stderr)
                self.assertNotIn("libpenstock-mpi.so", run("--no-windows", "--allow-fallback").stderr)
            doctor = subprocess.run([self.folder / place / "bin/penstock", "doctor"], capture_output=True, text=True,
                                    env=clean_environment())
            self.assertRegex(doctor.stdout, f"(?m)^fail .*{says}.*{fix}")

    def test_pool_needed(self):
        self.refused("env", "--mpi", "mpich", says="no pool is named", fix="penstock pool create", status=2)
        self.refused("env", "--mpi", "mpich", "--pool", "shm:no-such-pool", says="absent",
                     fix="penstock pool create")
        self.refused("env", "--mpi", "lam", "--pool", "shm:x", says="lam", status=2)

    def test_table(self):
        done = self.penstock("env", "--list", environment=clean_environment(PENSTOCK_LOG="error"))
        rows = {line.split()[0]: line.split() for line in done.stdout.splitlines()}
        self.assertEqual(rows["PENSTOCK_LOG"][1:3], ["error", "environment"])
        self.assertEqual(rows["PENSTOCK_LEASE_MS"][2], "default")
        self.assertIn("PENSTOCK_LEASE_MS", self.penstock("env", "--help").stdout)

    def by_score(self, **variables):
        """Runs an MPICH job with the provider's path and without "sockets", which libfabric has deprecated but ranks
        before ours with the same capabilities."""
        found = Path(PENSTOCK).resolve().parents[1].rglob("libpenstock-fi.so")
        library = min(found, key=lambda path: len(path.parts))  # below it lies what was built for wheels
        done = subprocess.run([MPIEXEC, "-n", "2", PYTHON, PROGRAMS / "all_to_all.py"], timeout=120,
                              capture_output=True, text=True,
                              env=clean_environment(FI_PROVIDER_PATH=library.parent, PENSTOCK_SUMMARY=1,
                                                    MPIR_CVAR_CH4_NETMOD="ofi", MPIR_CVAR_NOLOCAL=1,
                                                    FI_PROVIDER="^sockets", **variables))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("all to all: ok", done.stdout)
        return done.stdout + done.stderr

    def test_mpich_picks_our_provider_given_a_pool(self):
        spec = self.pool("128M", "software")
        self.assertIn(f"uses pool {spec}", self.by_score(PENSTOCK_POOL=spec, PENSTOCK_NODES=2))

    def test_mpich_picks_another_provider_without_pool(self):
        self.assertNotIn("penstock", self.by_score())


if __name__ == "__main__":
    unittest.main()
