"""make install: the installed command finds its own libraries."""

import subprocess
import unittest

from support import MPIEXEC, PROGRAMS, PYTHON, RELEASE, Case, clean_environment


class Install(Case):
    def test_installed_command_runs_a_job(self):
        if not RELEASE.is_dir():
            self.skipTest("there is nothing to install: make release")
        prefix = self.folder / "prefix"
        subprocess.run(["cmake", "--install", RELEASE, "--prefix", prefix], check=True,
                       capture_output=True)
        installed = prefix / "bin/penstock"
        run = lambda *arguments: subprocess.run([installed, *arguments], capture_output=True,
                                                text=True, timeout=120, env=clean_environment())
        doctor = run("doctor")
        for library in ("provider", "windows"):
            self.assertIn(f"{library}: {prefix.resolve()}", doctor.stdout)
        self.assertEqual(doctor.returncode, 0, doctor.stdout)
        done = run("run", "-n", "2", "--stats", "--", PYTHON, PROGRAMS / "all_to_all.py")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("all to all: ok", done.stdout)
        self.assertIn("transport: penstock", done.stderr)
        done = run("run", "-n", "2", "--", PYTHON, PROGRAMS / "preloaded.py")
        self.assertIn("preloaded: 2 of 2", done.stdout)
        done = run("pool", "create", self.folder / "pool", "--size", "16M", "--mode", "simulated")
        self.assertEqual(done.returncode, 1)
        self.assertIn("built without the simulator", done.stderr)
        libraries = {path.name for path in prefix.rglob("*.so")}
        self.assertEqual(libraries, {"libpenstock.so", "libpenstock-fi.so", "libpenstock-mpi.so", "libnccl-net-penstock.so"})
        # Only programs that name its folder get it.
        nccl = [path.relative_to(prefix) for path in prefix.rglob("libnccl.so*")]
        self.assertEqual([path.parts[-3:] for path in nccl], [("penstock", "nccl", "libnccl.so.2")])
        said = run("env", "--nccl", "--pool", "shm:none")
        self.assertIn("shm:none is absent", said.stderr)
        for path in ("include/penstock/penstock.h", "share/man/man1/penstock-pool-create.1",
                     "share/bash-completion/completions/penstock", "share/zsh/site-functions/_penstock"):
            self.assertTrue((prefix / path).is_file(), path)
        self.assertFalse(list(prefix.rglob("__pycache__")))
        done = subprocess.run([installed, "bench", "run", "coherence", "halo", "--quick", "--sizes", "64", "--repeat", "1", "--mpiexec",
                               MPIEXEC], capture_output=True, text=True, timeout=120, env=clean_environment(PENSTOCK_PYTHON=PYTHON))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for found in ("clflush", "exchange"):
            self.assertIn(found, done.stdout)
        self.assertFalse(list(prefix.rglob("__pycache__")))


if __name__ == "__main__":
    unittest.main()
