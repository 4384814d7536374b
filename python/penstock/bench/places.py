"""Finds the command, the measuring programs, the sources of MPI programs, and the MPI.

In an installation they are below one prefix (bin/penstock, lib/penstock/bench, share/penstock). The build tree has the
same folders as links.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Optional

from penstock.bench.experiment import Absent, Failed


class Tools:
    """All tools, each found when first needed. `close()` removes the compiled programs."""

    def __init__(self, command: Path, mpiexec: Optional[str] = None) -> None:
        self.command = command
        self.prefix = command.resolve().parent.parent
        self._mpiexec = mpiexec
        self._folder: Optional[tempfile.TemporaryDirectory[str]] = None
        self._compiled: Dict[str, Path] = {}

    def close(self) -> None:
        if self._folder:
            self._folder.cleanup()

    def __enter__(self) -> "Tools":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def program(self, name: str) -> Path:
        """One of our measuring programs."""
        for folder in (self.prefix / "lib/penstock/bench", self.prefix / "bin"):
            if os.access(folder / name, os.X_OK):
                return folder / name
        raise Absent(f"{name} is not built (sought in {self.prefix}/lib/penstock/bench and bin): make bench, or "
                     "cmake --build build --target penstock_bench_programs")

    def source(self, name: str) -> Path:
        """The C source of an MPI program, or a Python program: "bench/messages.c", "examples/halo.c"."""
        path = self.prefix / "share/penstock" / name
        if not path.exists():
            raise Absent(f"{path} is absent: install with 'make install' or 'pip install .', or build with 'make build'")
        return path

    def mpiexec(self) -> str:
        """MPICH's mpiexec, since MPICH's variables select the baselines."""
        beside = str(Path(sys.executable).parent / "mpiexec")
        found = self._mpiexec or (beside if os.access(beside, os.X_OK) else shutil.which("mpiexec"))
        if not found or not os.access(found, os.X_OK):
            raise Absent(f"no MPI: {found or 'mpiexec'} is not found: pip install mpich, or give --mpiexec PATH")
        if "HYDRA" not in self._said_of_mpiexec(found):
            raise Absent(f"{found} is not MPICH's, and the baselines are chosen by MPICH's variables: pip install mpich, "
                         "or give --mpiexec PATH")
        return found

    @staticmethod
    def _said_of_mpiexec(path: str) -> str:
        try:
            done = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Absent(f"{path} --version: {error}") from None
        return done.stdout

    def compiled(self, source: str, with_penstock: bool = False, mpi: bool = True) -> Path:
        """Compiles a program: MPI programs with the mpicc beside mpiexec; with libpenstock if it uses pools itself."""
        key = f"{source} {with_penstock}"
        if key not in self._compiled:
            self._compiled[key] = self._compile(self.source(source), with_penstock, self._mpicc() if mpi else self._cc())
        return self._compiled[key]

    def _mpicc(self) -> str:
        mpicc = Path(self.mpiexec()).parent / "mpicc"
        if not mpicc.exists():
            raise Absent(f"{mpicc} is absent, which compiles the MPI programs: pip install mpich")
        return str(mpicc)

    @staticmethod
    def _cc() -> str:
        found = shutil.which("cc") or shutil.which("gcc")
        if not found:
            raise Absent("no C compiler is on the PATH: apt install gcc")
        return found

    def _compile(self, source: Path, with_penstock: bool, compiler: str) -> Path:
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="penstock-bench-")
        program = Path(self._folder.name) / (source.stem + ("-pool" if with_penstock else ""))
        words = [compiler, "-O2", str(source), "-o", str(program), "-lm"]
        if with_penstock:
            library, include = self._library_folder(), self.include_folder()
            words += ["-DWITH_PENSTOCK", f"-I{include}", f"-L{library}", f"-Wl,-rpath,{library}", "-lpenstock"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failed(f"{' '.join(words)}: {done.stderr.strip()[-2000:]}")
        return program

    def _library_folder(self) -> Path:
        for folder in (self.prefix / "lib", *self.prefix.glob("lib/*-linux-gnu")):
            if (folder / "libpenstock.so").exists():
                return folder
        raise Absent(f"no libpenstock.so below {self.prefix}/lib: make build")

    def include_folder(self) -> Path:
        folder = self.prefix / "include"
        if (folder / "penstock/penstock.h").exists():
            return folder
        raise Absent(f"no penstock/penstock.h below {self.prefix}/include: make install")


def usable_cores() -> int:
    return len(os.sched_getaffinity(0))
