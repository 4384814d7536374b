"""The experiments of gpu_run.py, in an order in which each step can use what the steps before it have shown."""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import gpu_page
import gpu_parts
from gpu_parts import GB, KB, MB, json_lines
from gpu_runner import LeftOut, run_within

BIG = "all_gather,broadcast,reduce_scatter,all_reduce"
TOOLS = Path(__file__).resolve().parent / "gpu"
FILES = ("log.txt", "probe.jsonl", "training.txt", "stacks.txt", "cores.txt")  # what it appends to
CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")


def compared(rows):
    """Pairs the measurements of the two builds."""
    before = {(row["library"].removeprefix("before, "), row["operation"], row["ranks"], row["bytes"]): row["seconds"]
              for row in rows if row["library"].startswith("before, ")}
    found = []
    for row in rows:
        mode = row["library"].removeprefix("after, ")
        was = before.get((mode, row["operation"], row["ranks"], row["bytes"])) if mode != row["library"] else None
        if was is not None:
            found.append((mode, row["operation"], row["ranks"], gpu_page.size_name(row["bytes"]), f"{was * 1e6:.1f}", f"{row['seconds'] * 1e6:.1f}", f"{was / row['seconds']:.2f}"))
    return found


class Experiments:
    def __init__(self, run, before):
        self.run, self.before, self.work = run, before, None
        run.on_late = self.look_at
        run.keep_said = self.log

    def run_all(self):
        with tempfile.TemporaryDirectory(prefix="penstock-gpu-run-", dir="/dev/shm") as work, self.cores(Path(work) / "cores"):
            self.work = Path(work)
            self.run.part("machine", self.machine)
            extension = gpu_parts.Extension(self.run)
            try:
                self.probes()
                self.tests()
                self.large_calls()
                self.small_calls()
                self.all_to_all()
                self.training(extension)
                self.both_builds()
            finally:
                if extension.build is not None and extension.build.poll() is None:
                    extension.build.kill()
                    extension.build.communicate()
                self.run.results["machine"] = {"cores": os.cpu_count(), "date": time.strftime("%Y-%m-%d")}

    # ---- what explains failures

    def append(self, name, text):
        with (self.run.out / name).open("a") as file:
            file.write(text)

    def log(self, command, status, out, err):
        self.append("log.txt", f"== {time.strftime('%H:%M:%S')} status {status}: {command}\n{out}{err}\n")

    def debugger(self, limit, *arguments):
        """What the debugger says of a process or a core; in words if there is no debugger."""
        tool = next((path for path in map(shutil.which, ("cuda-gdb", "gdb")) if path), None)
        if tool is None:
            return "no cuda-gdb and no gdb here\n"
        words = [tool, "-nx", "-batch", "-ex", "set pagination off", "-ex", "thread apply all bt 24"]
        words += ["-ex", "info cuda kernels"] if "cuda" in Path(tool).name else []
        try:
            return subprocess.run([*words, *arguments], capture_output=True, text=True, timeout=limit, check=False, stdin=subprocess.DEVNULL).stdout
        except subprocess.TimeoutExpired:
            return "the debugger itself was late\n"

    def look_at(self, processes):
        for process in processes[:3]:
            self.append("stacks.txt", f"== late: process {process}\n{self.debugger(25, '-p', str(process))}\n")

    @contextlib.contextmanager
    def cores(self, folder):
        """Lets processes that die leave their cores in `folder`, where that may be set."""
        folder.mkdir()
        try:
            kept = CORE_PATTERN.read_text()
            if self.run.gpu:
                CORE_PATTERN.write_text(f"{folder}/core.%e.%p")
        except OSError:
            kept = None
        try:
            yield
        finally:
            if kept is not None and self.run.gpu:
                CORE_PATTERN.write_text(kept)

    def read_cores(self):
        for core in sorted((self.work / "cores").glob("core.*")):
            self.append("cores.txt", f"== {core.name}\n{self.debugger(40, self.run.python or '/usr/bin/python3', str(core))}\n")
            core.unlink()

    # ---- 0: the machine

    def machine(self):
        for words in (["lscpu"], ["uname", "-a"], ["df", "-h", "/dev/shm"], ["nvidia-smi"]):
            try:
                said = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
                self.log(" ".join(words), said.returncode, said.stdout, said.stderr)
            except (OSError, subprocess.TimeoutExpired) as error:
                self.log(" ".join(words), "none", "", str(error))
        subprocess.run(["cc", "-O1", "-g", "-shared", "-fPIC", "-o", self.work / "faults.so", TOOLS / "faults.c"], check=True, capture_output=True)

    # ---- 1: what the driver and the machine do

    def probe(self, *arguments, limit=30):
        if not self.run.gpu:
            raise LeftOut("it needs a GPU")
        path = self.work / "probe"
        if not path.exists():
            nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
            if not os.access(nvcc, os.X_OK):
                raise LeftOut("no nvcc in PATH or /usr/local/cuda")
            flags = ["-O2", "-std=c++17", "-arch=native", "-cudart", "static", "-Xcompiler", "-mclwb,-mclflushopt", "-lcuda"]
            stubs = [f"-L{Path(nvcc).resolve().parents[1]}/lib64/stubs"]
            self.run.job([[nvcc, *flags, *stubs, "-o", path, TOOLS / "probe.cu"]], 60, [dict(os.environ)])
        said = self.run.job([[path, *arguments]], limit, [dict(os.environ)])
        self.append("probe.jsonl", said)
        rows = json_lines(said)
        if any("failed" in row for row in rows):
            raise RuntimeError(f"{rows[-1]}")
        return f"{len(rows)} figures"

    def small_beside_spin(self):
        """Copies that need a multiprocessor wait until the other process's turn is over."""
        self.probe("small")  # alone, which also builds the program
        other = subprocess.Popen([self.work / "probe", "spin", "5"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        try:
            other.stdout.readline()
            self.append("probe.jsonl", json.dumps({"beside": "a process that spins"}) + "\n")
            return self.probe("small")
        finally:
            run_within([other], 10)

    def probes(self):
        for what in ("flush", "hops", "read", "queue"):
            self.run.part(f"probe {what}", lambda what=what: self.probe(what))
        self.run.part("probe small, alone and beside a process that spins", self.small_beside_spin)

    # ---- 2: tests

    def unit_tests(self, wanted, limit, **more):
        said = self.run.job([[self.run.bundle / "bin/gpu_test", f"--gtest_filter={wanted}"]], limit,
                            [self.run.environment(PENSTOCK_SIM_CUDA="libcuda.so.1", **more)])
        return next(line.strip() for line in said.splitlines() if "PASSED" in line)

    def tests(self):
        one = "GpuCommunicator.ReducesAsHostsDo"
        self.run.part(one, lambda: self.unit_tests(one, 20 if self.run.gpu else 120))
        if self.run.results["parts"] and self.run.results["parts"][-1]["outcome"].startswith("FAILED"):
            self.run.part(f"{one}, kernels loaded at the start", lambda: self.unit_tests(one, 12, CUDA_MODULE_LOADING="EAGER"))
            self.run.part(f"{one}, 32 queues for copies", lambda: self.unit_tests(one, 12, CUDA_DEVICE_MAX_COPY_CONNECTIONS=32))
        rest = f"-{one}" if self.run.gpu else "GpuFused.*:PinnedTest.*"
        self.run.part("the other tests of src/gpu", lambda: self.unit_tests(rest, 60))

    # ---- 3 to 5: collectives

    @contextlib.contextmanager
    def pool(self, mode, size):
        """A pool of the mode, made and removed by the bundle's own command; None: ranks make a
        temporary one."""
        size = size if self.run.gpu else "256M"
        if mode is None:
            yield {"PENSTOCK_SIZE": size}
            return
        spec = f"shm:gpu-run-{os.getpid()}"
        command = [self.run.bundle / "bin/penstock", "pool"]
        environment = self.run.environment()
        self.run.job([[*command, "create", spec, "--mode", mode, "--size", size, "--overwrite"]], 20, [environment])
        try:
            yield {"PENSTOCK_POOL": spec}
        finally:
            self.run.job([[*command, "rm", spec, "--force"]], 20, [environment])

    def measure(self, name, ranks, operations, least, most, mode="software", size="4G", limit=25, job=None, **more):
        calls = (1000 if most <= 64 * KB else 4) if self.run.gpu else 1
        if not self.run.gpu:
            least, most = min(least, 4 * KB), min(most, 64 * KB)

        def measuring():
            with self.pool(mode, size) as where:
                rows = json_lines((job or self.run.ranks)(ranks, "nccl_perf", operations, least, most, calls, limit=limit, **where, **more))
            self.run.results["measured"] += [{"library": name, **row} for row in rows]
            return ", ".join(f"{row['operation']} {row['bytes']}: {row['seconds'] * 1e6:.0f} us" for row in rows if "bus_GBps" in row)
        self.run.part(f"{name}, {ranks} ranks", measuring)

    def large_calls(self):
        """The same program with and without the writing back, with other chunks, and without a
        thread of the host."""
        self.measure("large calls, software", 2, BIG, 16 * MB, 64 * MB)
        self.measure("large calls, hardware, by a thread", 2, BIG, 16 * MB, 256 * MB, mode="hardware", PENSTOCK_GPU_DIRECT=0)
        for plan in ("chunk=1M", "chunk=2M"):
            self.measure(f"large calls, hardware, by a thread, {plan}", 2, BIG, 16 * MB, 64 * MB, mode="hardware", PENSTOCK_GPU_DIRECT=0,
                         PENSTOCK_COLL_PLAN=plan)
        self.measure("large calls, hardware, by a thread, one shot", 2, "all_reduce", 16 * MB, 64 * MB, mode="hardware", PENSTOCK_GPU_DIRECT=0,
                     PENSTOCK_COLL_PLAN="algorithm=one_shot,chunk=1M")
        self.measure("large calls, hardware, by streams", 2, BIG, 16 * MB, 64 * MB, mode="hardware")

    def answers(self, ranks, what, **more):
        with self.pool("hardware", "2G") as where:
            return self.run.ranks(ranks, "nccl_calls", what, limit=40, **where, **more).strip()

    def small_calls(self):
        for ranks in (2, 3):
            self.run.part(f"right answers, hardware, {ranks} ranks", lambda ranks=ranks: self.answers(ranks, "calls" if self.run.gpu else "short"))
        for form, flagged in (("one launch", 0), ("flagged", "16K")):
            self.run.part(f"right answers, hardware, by {form}",
                          lambda flagged=flagged: self.answers(2, "short", PENSTOCK_GPU_FUSED_BYTES="64K", PENSTOCK_GPU_FLAGGED_BYTES=flagged))
        for form, fused, flagged, modes in (("streams", 0, 0, ("hardware", "software")), ("one launch", "64K", 0, ("hardware", "software")),
                                            ("flagged", "64K", "16K", ("hardware",))):
            for mode in modes:
                self.measure(f"small calls, threads, {mode}, {form}", 2, "all_reduce,all_gather,broadcast", 16, 64 * KB, mode=mode, size="1G",
                             job=self.run.threads, PENSTOCK_GPU_FUSED_BYTES=fused, PENSTOCK_GPU_FLAGGED_BYTES=flagged)
        self.measure("small calls, processes, streams", 2, "all_reduce,broadcast", 16, 64 * KB, mode="hardware", size="1G", PENSTOCK_GPU_FUSED_BYTES=0)

    def all_to_all(self):
        """Messages that come before their receive are kept in memory of the process: pages that
        malloc keeps cost no faults."""
        for size in (8, 16, 32, 64):
            self.measure(f"alltoall of {size} MB", 2, "alltoall", size * MB, size * MB, mode=None, limit=15, PENSTOCK_LOG="info")
        kept = {"MALLOC_MMAP_MAX_": 0, "MALLOC_TOP_PAD_": 256 * MB, "MALLOC_TRIM_THRESHOLD_": GB}
        self.measure("alltoall of 64 MB, malloc keeps its pages", 2, "alltoall", 64 * MB, 64 * MB, mode=None, limit=15, **kept)

    # ---- 6: training

    def train(self, name, backend, extension, mode, **more):
        begin = (self.run.out / "log.txt").stat().st_size
        try:
            with self.pool(mode, "8G") as where:
                return gpu_parts.train(self.run, name, backend, extension, PYTHONFAULTHANDLER=1, PYTHONUNBUFFERED=1, **{**where, **more})
        finally:
            with (self.run.out / "log.txt").open() as file:
                file.seek(begin)
                self.append("training.txt", file.read())
            self.read_cores()

    def training(self, extension):
        told = {"LD_PRELOAD": self.work / "faults.so", "PENSTOCK_LOG": "info"}
        self.run.part(extension.part, extension.await_build)
        for name, mode, more in (("penstock", None, {}),
                                 ("penstock, chunks of 256 KB", None, {"PENSTOCK_COLL_PLAN": "chunk=256K"}),
                                 ("penstock, hardware, by a thread", "hardware", {"PENSTOCK_GPU_DIRECT": 0}),
                                 ("penstock, hardware, by streams", "hardware", {})):
            self.run.part(f"training: {name}", lambda name=name, mode=mode, more=more: self.train(name, "penstock", extension, mode, **told, **more))
        if self.run.gpu:
            library = {"LD_PRELOAD": self.run.bundle.resolve() / "lib/penstock/nccl/libnccl.so.2"}
            self.run.part("training: torch's nccl over Penstock's library", lambda: self.train("nccl", "nccl", extension, None, **library))

    # ---- 7: two builds in turn

    @contextlib.contextmanager
    def using(self, bundle):
        kept, self.run.bundle = self.run.bundle, bundle
        try:
            yield
        finally:
            self.run.bundle = kept

    def both_builds(self):
        if self.before is None:
            return self.run.part("before and after", self.no_earlier_build)
        for mode in ("software", "hardware"):
            for ranks, least in ((2, MB), (4, 16 * MB)) if self.run.gpu else ((2, MB),):
                for name, bundle in (("before", self.before), ("after", self.run.bundle)):
                    with self.using(bundle):
                        self.measure(f"{name}, {mode}", ranks, BIG if ranks > 2 else f"{BIG},alltoall", least, 64 * MB, mode=mode)
        return None

    @staticmethod
    def no_earlier_build():
        raise LeftOut("no bundle of an earlier commit: ci/gpu.sh --bundle-of COMMIT makes one")
