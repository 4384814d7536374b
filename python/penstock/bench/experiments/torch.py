"""PyTorch's collectives through the pool and over gloo, and steps of examples/train.py."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Dict, List, Sequence

from penstock.bench import jobs
from penstock.bench.experiment import Absent, Experiment, Failed, Figures, Key, Measure, Run
from penstock.bench.model import Plot

SIZES, QUICK_SIZES = [1 << 10, 1 << 20, 16 << 20], [1 << 10]
OPS = ["all_reduce", "all_gather", "reduce_scatter"]
BACKENDS = {"gloo": "gloo", "Penstock": "penstock", "Penstock, tensors in the pool": "penstock-pool"}
RAW = "raw limit"


def python_with_torch(run: Run) -> str:
    """A Python with torch: this one, or that of the source tree's .venv-torch."""
    for python in (sys.executable, str(run.tools.prefix.parent / ".venv-torch/bin/python")):
        if os.access(python, os.X_OK) and subprocess.run([python, "-c", "import torch"], capture_output=True,
                                                         check=False).returncode == 0:
            return python
    raise Absent(f"{sys.executable} has no torch: pip install torch")


def package_folder(run: Run) -> str:
    """The folder of the package with the compiled back end."""
    for folder in (run.tools.prefix / "python", run.tools.prefix.parent):
        if any((folder / "penstock/torch").glob("_c10d_*.so")):
            return str(folder)
    raise Absent("PyTorch's back end is not built: make torch, or pip install . where torch is installed")


def free_port() -> int:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return int(chosen.getsockname()[1])


class Ranks:
    """Jobs with one rank a process. Each rank is bound to a core if there are enough."""

    def __init__(self, run: Run, ranks: int) -> None:
        self.run, self.ranks = run, ranks
        self.folder = package_folder(run)
        self.python = python_with_torch(run)

    def said(self, command: Sequence[str]) -> str:
        """Runs the job; returns the output of rank 0."""
        cores = sorted(os.sched_getaffinity(0))
        shared = {**jobs.clean_environment(), "PYTHONPATH": self.folder, "OMP_NUM_THREADS": "1", "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(self.ranks), "PENSTOCK_NODES": str(min(self.ranks, 2)),
                  "PENSTOCK_SIZE": "1G"}

        def start(rank: int) -> "subprocess.Popen[str]":
            bound = {cores[rank]} if self.ranks <= len(cores) else set(cores)
            return subprocess.Popen([self.python, *command], env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}, text=True,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                    preexec_fn=lambda: os.sched_setaffinity(0, bound))

        timeout = self.run.timeout()
        until = time.monotonic() + timeout
        started: "List[subprocess.Popen[str]]" = []
        try:
            started.extend(map(start, range(self.ranks)))
            said = [job.communicate(timeout=max(0.0, until - time.monotonic())) for job in started]
        except subprocess.TimeoutExpired:
            raise Failed(jobs.not_done(command, timeout)) from None
        finally:
            for job in started:
                if job.poll() is None:
                    jobs.end(job)
        for job, (_, err) in zip(started, said):
            if job.returncode != 0:
                raise Failed(f"{' '.join(command)}: {err.strip()[-1000:]}")
        return said[0][0]


def measure(ranks: Ranks, backend: str, operations: Sequence[str], sizes: Sequence[int]) -> Figures:
    wall = jobs.enough_cores(ranks.ranks)
    calls = 20 if ranks.run.settings.quick else 500 if wall else 20
    program = [str(ranks.run.tools.source("bench/torch_rank.py")), backend, ",".join(operations), jobs.sizes_argument(sizes), str(calls)]
    figures: Dict[Key, float] = {}
    for line in ranks.said(program).splitlines():
        operation, size, microseconds, cpu = line.split()
        for op in OPS if operation == "raw" else [operation]:
            what = partial(Key, op, bytes=int(size), procs=ranks.ranks, wall=wall)
            if wall:
                figures[what(metric="time_us")] = float(microseconds)
            if operation != "raw":
                figures[what(metric="cpu_us")] = float(cpu)
    return figures


def steps(ranks: Ranks, backend: str) -> Figures:
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        ranks.said([str(ranks.run.tools.source("examples/train.py")), "--backend", backend, "--steps", "20", "--losses", file.name])
        seconds: List[float] = sorted(json.loads(Path(file.name).read_text())["seconds"])
    return {Key("step of examples/train.py", "time_us", procs=ranks.ranks): seconds[len(seconds) // 2] * 1e6}


def run(run: Run) -> None:
    sizes = run.settings.sizes_or(SIZES, QUICK_SIZES)
    for number in run.settings.procs_or([2], [2]):
        ranks = Ranks(run, number)
        measurements: Dict[str, Measure] = {name: partial(measure, ranks, backend, OPS, sizes)
                                            for name, backend in BACKENDS.items()}
        if jobs.enough_cores(number):
            measurements[RAW] = partial(measure, ranks, "gloo", ["raw"], sizes)
        run.rounds(measurements, 3, quick_rounds=1, baselines=["gloo", RAW])
        if not run.settings.quick and jobs.enough_cores(number):
            run.rounds({name: partial(steps, ranks, BACKENDS[name]) for name in ("gloo", "Penstock")}, 3, baselines=["gloo"])
    for op in OPS:
        run.plot(Plot(f"torch-{op}", f"PyTorch: {op}", {"op": op, "metric": "time_us"}, unit="microseconds"))


EXPERIMENT = Experiment(
    "torch", "Collectives of PyTorch", "Calls of torch.distributed through the pool, from ordinary tensors and from tensors in "
    "it, beside gloo and PyTorch's own copies through shared memory; steps of a training.", source="CCCL, LLM training",
    emulated="Two emulated hosts are processes of one; the pool is its memory.", run=run, order=90, needs="torch, two cores")
