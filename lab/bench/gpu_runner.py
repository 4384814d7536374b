"""Runs the parts of gpu.py and gpu_run.py: jobs whose ranks share the GPU, each within a time limit; finds NVIDIA's libraries and tools."""

import argparse
import ctypes
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
OWN_VARIABLES = ("PENSTOCK_", "NCCL_", "LD_PRELOAD")


class LeftOut(Exception):
    """Something that a part needs is missing; the text names it."""


def gpu_name():
    """None if there is no NVIDIA driver, or it finds no GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    name, device = ctypes.create_string_buffer(256), ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGet(ctypes.byref(device), 0) != 0:
        return None
    driver.cuDeviceGetName(name, 256, device)
    return name.value.decode()


def run_within(jobs, seconds, on_late=None):
    """Returns the output and status of each process. None of them, nor of their children, is
    left running. `on_late` gets the numbers of the processes that exceed the time, before they
    end; what all have said is then in the exception's `said`."""
    end = time.monotonic() + seconds
    said, late = [], None
    try:
        for job in jobs:
            try:
                said.append(job.communicate(timeout=max(0.1, end - time.monotonic())))
            except subprocess.TimeoutExpired as expired:
                late = expired
                break
        if late is not None and on_late is not None:
            on_late([job.pid for job in jobs if job.poll() is None])
    finally:
        for job in jobs:
            if job.poll() is None:
                os.killpg(job.pid, signal.SIGKILL)
        said += [job.communicate() for job in jobs[len(said):]]
    outcomes = [(job.returncode, out, err) for job, (out, err) in zip(jobs, said)]
    if late is not None:
        late.said = outcomes
        raise late
    return outcomes


def options_of(description, name, seconds):
    """The parser of a command whose results go to build/`name`."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, default=SOURCE / "build/gpu")
    parser.add_argument("--out", type=Path, default=SOURCE / "build" / name)
    parser.add_argument("--python", help="that has torch")
    parser.add_argument("--seconds", type=int, default=seconds, help="of all parts together")
    parser.add_argument("--only", metavar="PATTERN", help="only parts in whose names it is found")
    return parser


def begin(options):
    """Says which GPU there is, and makes the folder of the results. Returns the Runner."""
    gpu = gpu_name()
    print(f"GPU: {gpu}" if gpu else "no GPU here: the stand-in's form", flush=True)
    options.out.mkdir(parents=True, exist_ok=True)
    return Runner(options, gpu)


class Runner:
    def __init__(self, options, gpu):
        self.bundle, self.out, self.gpu, self.only = options.bundle, options.out, gpu, options.only
        self.until = time.monotonic() + options.seconds
        self.said_aside = ""
        self.on_late = None  # as in run_within()
        self.keep_said = None  # gets the name, status, output and standard error of each rank of each job
        self.results = {"gpu": gpu or "stand-in", "parts": [], "measured": [], "limits": [], "nccl_tests": [], "training": [],
                        "utilization": [], "small": [],
                        "multiprocessors": []}
        self.python = self.find_torch(options.python)

    @staticmethod
    def find_torch(named):
        """Returns a Python that has torch, or None."""
        for python in [named] if named else [os.environ.get("PENSTOCK_TORCH_PYTHON"), SOURCE / ".venv-torch/bin/python", sys.executable]:
            if python and os.access(python, os.X_OK) and subprocess.run([python, "-c", "import torch"], capture_output=True,
                                                                        check=False).returncode == 0:
                return str(python)
        return None

    def nvidia_folders(self):
        """The folders in which pip has installed NVIDIA's packages."""
        folders = list(sys.path)
        if self.python:
            said = subprocess.run([self.python, "-c", "import sys; print('\\n'.join(sys.path))"], capture_output=True, text=True, check=False)
            folders += said.stdout.split("\n")
        return [folder for folder in dict.fromkeys(folders) if folder and os.path.isdir(f"{folder}/nvidia")]

    def find_nccl(self):
        """NVIDIA's own library, from pip, torch or the system, or None."""
        found = [path for folder in self.nvidia_folders() for path in sorted(glob.glob(f"{folder}/nvidia/nccl/lib/libnccl.so.2"))]
        found += sorted(glob.glob("/usr/lib/*/libnccl.so.2"))
        return found[0] if found else None

    def find_sanitizer(self):
        """NVIDIA's compute-sanitizer, from PATH, CUDA_HOME, /usr/local or pip's packages, or
        None."""
        homes = [os.environ.get("CUDA_HOME", ""), *sorted(glob.glob("/usr/local/cuda*"), reverse=True)]
        found = [shutil.which("compute-sanitizer")]
        found += [f"{home}/{below}/compute-sanitizer" for home in homes if home for below in ("bin", "compute-sanitizer")]
        found += [path for folder in self.nvidia_folders() for path in sorted(glob.glob(f"{folder}/nvidia/**/compute-sanitizer", recursive=True))]
        return next((path for path in found if path and os.path.isfile(path) and os.access(path, os.X_OK)), None)

    def environment(self, **more):
        libraries = [str(self.bundle / "lib"), str(self.bundle / "lib/penstock/nccl")]
        if not self.gpu:
            libraries.append(str(self.bundle / "standin"))
            more = {"PENSTOCK_SPIN": 1, **more}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(OWN_VARIABLES)}
        kept["LD_LIBRARY_PATH"] = ":".join([*libraries, os.environ.get("LD_LIBRARY_PATH", "")])
        return {**kept, "GPU": "1", **{name: str(value) for name, value in more.items()}}

    def left(self, limit):
        return max(1, min(limit, self.until - time.monotonic()))

    def job(self, commands, limit, environments):
        """Runs all ranks of a job. Returns rank 0's output; stores its standard error in
        `said_aside`. Raises if a rank fails."""
        jobs = [subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 start_new_session=True, env=environment)
                for command, environment in zip(commands, environments)]
        try:
            said = run_within(jobs, self.left(limit), self.on_late)
        except subprocess.TimeoutExpired as late:
            self.keep(commands, late.said)
            raise
        self.keep(commands, said)
        for rank, (status, out, err) in enumerate(said):
            if status != 0:
                raise RuntimeError(f"rank {rank}: status {status}: {(err.strip() or out.strip())[-800:]}")
        self.said_aside = said[0][2]
        return said[0][1]

    def keep(self, commands, said):
        for command, (status, out, err) in zip(commands, said):
            if self.keep_said is not None:
                self.keep_said(" ".join(map(str, command)), status, out, err)

    def ranks(self, number, program, *arguments, limit=60, prefix=(), **more):
        """Runs a program of the bundle as a job whose ranks share a folder in memory."""
        with tempfile.TemporaryDirectory(prefix="penstock-gpu-", dir="/dev/shm") as folder:
            commands = [[*prefix, self.bundle / "bin" / program, rank, number, folder, *arguments] for rank in range(number)]
            return self.job(commands, limit, [self.environment(**{"NCCL_HOSTID": rank, **more}) for rank in range(number)])

    def threads(self, number, program, *arguments, limit=60, **more):
        """The same in one process, whose threads are the ranks: their kernels run side by side
        on the GPU."""
        with tempfile.TemporaryDirectory(prefix="penstock-gpu-", dir="/dev/shm") as folder:
            # A hardware queue for each stream: a waiting launch must not block another stream's.
            environment = self.environment(CUDA_DEVICE_MAX_CONNECTIONS=32, **more)
            return self.job([[self.bundle / "bin" / program, "-", number, folder, *arguments]], limit, [environment])

    def nccl_over_sockets(self):
        """The variables that make a program use NVIDIA's library, and that library use sockets.
        Raises LeftOut."""
        library = self.find_nccl() if self.gpu else None
        if library is None:
            raise LeftOut("no libnccl.so.2 of NVIDIA's is here" if self.gpu else "it needs a GPU")
        return {"LD_PRELOAD": library, "NCCL_NET": "Socket", "NCCL_P2P_DISABLE": 1, "NCCL_SHM_DISABLE": 1, "NCCL_SOCKET_IFNAME": "lo",
                "NCCL_NET_PLUGIN": "none"}

    def wants(self, name):
        return self.only is None or re.search(self.only, name) is not None

    def part(self, name, body):
        if not self.wants(name):
            return
        begin = time.monotonic()
        try:
            if begin > self.until:
                raise LeftOut("no time was left for it")
            words = body() or "ok"
        except LeftOut as reason:
            words = f"left out: {reason}"
        except subprocess.TimeoutExpired:
            words = "FAILED: it exceeded its time limit"
        except Exception as error:  # the next part still runs
            words = f"FAILED: {str(error)[:900]}"
        seconds = time.monotonic() - begin
        print(f"{name}: {words} ({seconds:.1f} s)", flush=True)
        self.results["parts"].append({"name": name, "outcome": words, "seconds": round(seconds, 1)})
