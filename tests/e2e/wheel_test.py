"""The wheel (make wheel) in a fresh virtual environment: the command, MPI jobs, pools, PyTorch without an import of ours,
and an `import torch` that nothing of ours can break."""

import os
import subprocess
import sysconfig
import unittest
from pathlib import Path

from support import MPIEXEC, PENSTOCK, SOURCE, Case, clean_environment

TORCH = SOURCE / ".venv-torch"
DIST = Path(PENSTOCK).resolve().parents[1] / "dist"
HELLO = """
#include <penstock/penstock.h>
#include <stdio.h>
int main(void) { puts(penstock_version()); return 0; }
"""
SUM = """
import os, torch, torch.distributed as dist
dist.init_process_group("penstock")
ones = torch.ones(1000)
dist.all_reduce(ones)
os.write(1, f"sum {int(ones.sum())} {dist.get_backend()}\\n".encode())
dist.destroy_process_group()
"""


class Wheel(Case):
    def setUp(self):
        super().setUp()
        wheels = sorted(DIST.glob("penstock-*.whl"))
        if not wheels or not os.access(TORCH / "bin/python", os.X_OK):
            self.skipTest(f"there is no wheel in {DIST}: make wheel")
        self.venv = self.folder / "venv"
        self.run_checked(TORCH / "bin/python", "-m", "venv", self.venv)
        (self.packages,) = self.venv.glob("lib/python*/site-packages")
        (theirs,) = TORCH.glob("lib/python*/site-packages")
        # torch and numpy as if they were installed beside.
        (self.packages / "torch.pth").write_text(f"{theirs}\n")
        self.run_checked(self.venv / "bin/pip", "install", "--quiet", "--no-deps", "--no-index", wheels[-1])

    def run_checked(self, *command, status=0, **more):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=200,
                              cwd=self.folder, env=clean_environment(OMP_NUM_THREADS=1, **more))
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def python(self, program, **more):
        return self.run_checked(self.venv / "bin/python", "-c", program, **more)

    def test_everything_is_inside(self):
        command = self.venv / "bin/penstock"
        self.assertIn("penstock ", self.run_checked(command, "--version"))
        for path in ("man/man1/penstock-run.1", "bash-completion/completions/penstock", "zsh/site-functions/_penstock"):
            self.assertTrue((self.venv / "share" / path).is_file(), path)
        said = self.run_checked(command, "run", "--mpiexec", MPIEXEC, "-n", "2", "--nodes", "2", "--", PYTHON_OF_MPI,
                                SOURCE / "examples/heat.py", PENSTOCK_LOG="info")
        self.assertIn("collectives of 2 ranks go through the pool", said)
        show_mode = ("import penstock.pool as p; s = p.create_temporary(); print(p.attach(s).info().mode); "
                     "p.remove(s, force=True)")
        self.assertEqual(self.python(show_mode), "hardware\n")
        self.assertEqual(self.python(show_mode, PENSTOCK_NODES="2"), "software\n")
        (self.folder / "hello.c").write_text(HELLO)
        flags = self.python("import penstock as p; print(p.include_folder(), p.library_folder())").split()
        self.run_checked("cc", "hello.c", f"-I{flags[0]}", f"-L{flags[1]}", f"-Wl,-rpath,{flags[1]}", "-lpenstock", "-o",
                         "hello")
        self.assertEqual(self.run_checked("./hello"), self.python("import penstock; print(penstock.__version__)"))

    def test_experiments(self):
        command = self.venv / "bin/penstock"
        self.assertIn("coherence", self.run_checked(command, "bench", "list"))
        self.assertIn("-m pip install rich", self.run_checked(command, "bench", "run", "coherence", "--quick", status=1))
        (theirs,) = Path(MPIEXEC).parents[1].glob("lib/python*/site-packages")
        (self.packages / "rich.pth").write_text(f"{theirs}\n")
        said = self.run_checked(command, "bench", "run", "coherence", "halo", "--quick", "--sizes", "64", "--repeat", "1", "--mpiexec",
                                MPIEXEC, "--report", self.folder / "report")
        for found in ("clflush", "exchange"):
            self.assertIn(found, said)

    def test_torchrun_without_an_import(self):
        (self.folder / "sum.py").write_text(SUM)
        said = self.run_checked(self.venv / "bin/python", "-m", "torch.distributed.run", "--standalone",
                                "--nproc-per-node", "2", "sum.py")
        self.assertEqual(said.count("sum 2000 penstock"), 2, said)

    def test_nothing_of_ours_breaks_torch(self):
        self.python("import torch", TORCH_DEVICE_BACKEND_AUTOLOAD=0)
        (module,) = self.packages.glob("penstock/torch/_c10d_*.so")
        (library,) = self.packages.glob("penstock/lib/libpenstock.so.0")
        library.unlink()
        self.python("import torch")
        module.rename(module.parent / f"_c10d_1_0{sysconfig.get_config_var('EXT_SUFFIX')}")
        self.python("import torch")
        program = "import penstock.torch as p\ntry: p.backend_module()\nexcept ImportError as error: print(error)"
        said = self.python(program)
        self.assertRegex(said, r"no part for torch 2\.\S+ \(built for: 1\.0;.*pip install")
        for file in (self.packages / "penstock").glob("*.py"):
            if file.name != "_torch_autoload.py":
                file.write_text("raise RuntimeError('damaged')\n" if file.name != "__init__.py" else "")
        (self.packages / "penstock/torch/__init__.py").write_text("raise RuntimeError('damaged')\n")
        self.python("import torch")


PYTHON_OF_MPI = Path(MPIEXEC).parent / "python"

if __name__ == "__main__":
    unittest.main()
