"""PyTorch's back end with tensors of a GPU, on the stand-in driver: a CPU build of PyTorch, and sanitizers."""

import os
import shutil
import subprocess
import unittest

from support import PENSTOCK, SOURCE, Case, clean_environment

PYTHON = SOURCE / ".venv-torch/bin/python"
PLUGIN = SOURCE / "plugins/torch"
PROGRAM = SOURCE / "tests/torch_standin"
BUILD = os.path.dirname(os.path.dirname(PENSTOCK))
STANDIN = f"{BUILD}/standin"
# PyTorch's headers take longer than our sources, so each compilation has many of these.
SANITIZED = ["-std=c++20", "-g1", "-w", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
WHERE_PYTHON_IS = "import sysconfig; print(*map(sysconfig.get_config_var, ('LIBDIR', 'LDVERSION')))"


class TorchOnStandin(Case):
    def setUp(self):
        super().setUp()
        compiler = shutil.which(os.environ.get("CXX", "g++"))
        if not os.access(PYTHON, os.X_OK) or not compiler:
            self.skipTest(f"{PYTHON} or a C++ compiler is absent: ci/install.sh torch")
        self.program = self.folder / "torch_standin"
        self.compile(compiler)

    @staticmethod
    def said(*command):
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def compile(self, compiler):
        _, _, torch, abi, *folders = self.said(PYTHON, "-E", PLUGIN / "how_to_build.py").split(";")
        python, version = self.said(PYTHON, "-E", "-c", WHERE_PYTHON_IS).split()
        if not os.path.exists(f"{python}/libpython{version}.so"):
            self.skipTest(f"no libpython{version}.so in {python}: a Python with a shared library is needed")
        flags = [*SANITIZED, f"-D_GLIBCXX_USE_CXX11_ABI={abi}", *(word for folder in folders for word in ("-isystem", folder)),
                 *(f"-I{folder}" for folder in (SOURCE / "include", PLUGIN, SOURCE / "plugins", SOURCE / "src"))]
        plugin = [path for path in sorted(PLUGIN.glob("*.cpp")) if path.name != "module.cpp"]  # which a Python loads
        parts = {"plugin": plugin, "device": [PROGRAM / "device.cpp"], "program": [PROGRAM / "torch_standin.cpp"]}
        for name, sources in parts.items():
            text = "".join(f'#include "{source}"\n' for source in sources)
            (self.folder / f"{name}.cpp").write_text(text)
        compilers = [subprocess.Popen([compiler, *flags, "-c", self.folder / f"{name}.cpp", "-o", self.folder / f"{name}.o"])
                     for name in parts]
        self.assertEqual([job.wait() for job in compilers], [0] * len(parts))
        libraries = [f"{BUILD}/lib/libpenstock_gpu.a", f"{BUILD}/lib/libpenstock_base.a", f"-L{BUILD}/lib", "-l:libpenstock.so.0",
                     f"-L{torch}", "-ltorch_python", "-ltorch_cpu", "-ltorch", "-lc10", f"-L{python}", f"-lpython{version}", "-ldl"]
        subprocess.run([compiler, *SANITIZED, *(self.folder / f"{name}.o" for name in parts), "-o", self.program, *libraries,
                        *(f"-Wl,-rpath,{folder}" for folder in (f"{BUILD}/lib", torch, python)), "-Wl,--allow-shlib-undefined"],
                       check=True)

    def ranks(self, what, **more):
        """What two ranks print, and their status. A call waits for room outside the driver, or the stand-in ends the process."""
        folder = self.folder / "-".join([what, *map(str, more.values())])
        folder.mkdir()
        # Streams of the stand-in are threads, and need the cores. They live as long as the process, which is no leak.
        environment = clean_environment(LD_LIBRARY_PATH=STANDIN, PENSTOCK_SPIN=1, PENSTOCK_SIZE="256M", OMP_NUM_THREADS=1,
                                        PENSTOCK_COLL_PLAN="chunk=4K", STANDIN_FULL_QUEUE_ABORTS=1,
                                        ASAN_OPTIONS="detect_leaks=0", UBSAN_OPTIONS="print_stacktrace=1", **more)
        return self.outcomes([subprocess.Popen([self.program, str(rank), "2", folder, what], stdout=subprocess.PIPE,
                                               stderr=subprocess.PIPE, text=True, env=environment) for rank in range(2)])

    def test_training_and_abort(self):
        """Gathers in place on a stream beside reductions in another thread; and an abort of a call that waits for room."""
        hardware = {"PENSTOCK_POOL": self.pool("256M", "hardware")}
        for what in ("training", "abort"):
            for more in ({}, hardware):
                with self.subTest(what=what, **more):
                    for status, out, err in self.ranks(what, **more):
                        self.assertEqual((status, out), (0, "ok\n"), err)


if __name__ == "__main__":
    unittest.main()
