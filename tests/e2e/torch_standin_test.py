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
# PyTorch's headers take longer than our sources, so one compilation has all of these.
SANITIZED = ["-std=c++20", "-g1", "-w", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"]
WHERE_PYTHON_IS = "import sysconfig; print(*map(sysconfig.get_config_var, ('LIBDIR', 'LDVERSION')))"


class TorchOnStandin(Case):
    build = BUILD

    def setUp(self):
        super().setUp()
        self.compiler = shutil.which(os.environ.get("CXX", "g++"))
        if not os.access(PYTHON, os.X_OK) or not self.compiler:
            self.skipTest(f"{PYTHON} or a C++ compiler is absent: ci/install.sh torch")
        self.program = self.folder / "torch_standin"

    @staticmethod
    def said(*command):
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    def compile(self):
        _, _, torch, abi, *folders = self.said(PYTHON, "-E", PLUGIN / "how_to_build.py").split(";")
        python, version = self.said(PYTHON, "-E", "-c", WHERE_PYTHON_IS).split()
        if not os.path.exists(f"{python}/libpython{version}.so"):
            self.skipTest(f"no libpython{version}.so in {python}: a Python with a shared library is needed")
        flags = [*SANITIZED, f"-D_GLIBCXX_USE_CXX11_ABI={abi}", *(word for folder in folders for word in ("-isystem", folder)),
                 *(f"-I{folder}" for folder in (SOURCE / "include", PLUGIN, SOURCE / "plugins", SOURCE / "src"))]
        plugin = [path for path in sorted(PLUGIN.glob("*.cpp")) if path.name != "module.cpp"]  # which a Python loads
        sources = [*plugin, PROGRAM / "device.cpp", PROGRAM / "torch_standin.cpp"]
        (self.folder / "all.cpp").write_text("".join(f'#include "{source}"\n' for source in sources))
        libraries = [f"{self.build}/lib/libpenstock_gpu.a", f"{self.build}/lib/libpenstock_base.a", f"-L{self.build}/lib", "-l:libpenstock.so.0",
                     f"-L{torch}", "-ltorch_python", "-ltorch_cpu", "-ltorch", "-lc10", f"-L{python}", f"-lpython{version}", "-ldl"]
        subprocess.run([self.compiler, *flags, self.folder / "all.cpp", "-o", self.program, *libraries,
                        *(f"-Wl,-rpath,{folder}" for folder in (f"{self.build}/lib", torch, python)), "-Wl,--allow-shlib-undefined"],
                       check=True)

    def ranks(self, what, **more):
        """What two ranks print, and their status. A call waits for room outside the driver, or the stand-in ends the process."""
        folder = self.folder / "-".join([what, *map(str, more.values())])
        folder.mkdir()
        # Streams of the stand-in are threads, and need the cores. They live as long as the process, which is no leak.
        environment = clean_environment(LD_LIBRARY_PATH=f"{self.build}/standin", PENSTOCK_SPIN=1, PENSTOCK_SIZE="256M", OMP_NUM_THREADS=1,
                                        PENSTOCK_COLL_PLAN="chunk=4K", STANDIN_FULL_QUEUE_ABORTS=1,
                                        ASAN_OPTIONS="detect_leaks=0", UBSAN_OPTIONS="print_stacktrace=1", **more)
        return self.outcomes([subprocess.Popen([self.program, str(rank), "2", folder, what], stdout=subprocess.PIPE,
                                               stderr=subprocess.PIPE, text=True, env=environment) for rank in range(2)])

    def test_training_and_abort(self):
        """Gathers in place on a stream beside reductions in another thread; and an abort of a call that waits for room."""
        self.compile()
        hardware = {"PENSTOCK_POOL": self.pool("256M", "hardware")}
        for what in ("training", "abort"):
            for more in ({}, hardware):
                with self.subTest(what=what, **more):
                    for status, out, err in self.ranks(what, **more):
                        self.assertEqual((status, out), (0, "ok\n"), err)


class SanitizedLibrary(TorchOnStandin):
    """The same with the sanitizers in libpenstock and the stand-in too; and the tests of src/gpu."""
    build = f"{BUILD}/sanitized"  # stays: the next run compiles what has changed

    def setUp(self):
        super().setUp()
        flags = " ".join(flag for flag in SANITIZED if flag.startswith("-f")) + " -O1 -g1 -fno-omit-frame-pointer"
        options = [f"-DCMAKE_{language}_FLAGS={flags}" for language in ("C", "CXX")]
        for command in (["cmake", "-G", "Ninja", "-S", SOURCE, "-B", self.build, "-DCMAKE_BUILD_TYPE=None", "-DPENSTOCK_BUILD_BENCH=OFF", *options],
                        ["cmake", "--build", self.build, "--target", "penstock_shared", "gpu_test"]):
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-6000:])

    def test_training_and_abort_of_all_layers(self):
        self.test_training_and_abort()

    def test_gpu_code(self):
        environment = clean_environment(LD_LIBRARY_PATH=f"{self.build}/standin", ASAN_OPTIONS="detect_leaks=0",
                                        UBSAN_OPTIONS="print_stacktrace=1")
        done = subprocess.run([f"{self.build}/bin/gpu_test", "--gtest_brief=1"], capture_output=True, text=True, env=environment)
        self.assertEqual(done.returncode, 0, (done.stdout + done.stderr)[-6000:])


if __name__ == "__main__":
    unittest.main()
