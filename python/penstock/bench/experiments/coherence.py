"""Figure 11 of cMPI: the cost of a write-back by instruction and store width; and the cost on the reader's side."""

from __future__ import annotations

import json
import subprocess
from functools import partial
from typing import List, Optional

from penstock.bench import jobs
from penstock.bench.experiment import Experiment, Failed, Run
from penstock.bench.model import Plot

SIZES = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072]
QUICK_SIZES = [64, 4096]
LARGEST = 1 << 22


def mode_of(run: Run) -> Optional[str]:
    """The mode of the named pool; None without one."""
    if not run.settings.pool:
        return None
    done = subprocess.run([str(run.tools.command), "pool", "info", "--json", run.settings.pool], capture_output=True, text=True,
                          check=False, env=jobs.clean_environment())
    if done.returncode != 0:
        raise Failed(done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"{run.settings.pool} cannot be read")
    return str(json.loads(done.stdout)["mode"])


def run(run: Run) -> None:
    wanted = run.settings.sizes_or(SIZES, QUICK_SIZES)
    sizes: List[int] = sorted({max(64, (size + 63) // 64 * 64) for size in wanted if size <= LARGEST})
    if not sizes:
        run.lacks(f"sizes above {LARGEST} bytes are not measured")
        return
    mode = mode_of(run)
    pool = ["--pool", run.settings.pool] if mode and run.settings.pool else []
    command = [str(run.tools.program("memory_bench")), "--rounds", "1", "--what", "write-back,reader", "--sizes",
               jobs.sizes_argument(sizes), "--size", "64M", "--mode", mode or "software", *pool]
    run.rounds({"pool": partial(jobs.figures_of, run, command)}, 7)
    if mode != "uncached":
        run.lacks("uncached memory: no pool of that mode is here to be had; make one on a device whose mapping is uncacheable, "
                  "and give --pool SPEC")
    for group in ("clflush", "clflushopt", "clwb", "past the cache"):
        run.plot(Plot(f"coherence-{group.replace(' ', '-')}", f"Store and write back: {group} (cMPI, Figure 11)",
                      {"op": "store and write back", "group": group}, unit="microseconds"))
    run.plot(Plot("coherence-reader", "The reader's half: drop, fence and load", {"group": "reader"}, unit="microseconds"))


EXPERIMENT = Experiment(
    "coherence", "Write-backs by instruction and store width", "Stores of 1 to 64 bytes and libc's memset, written back by "
    "clflush, clflushopt and clwb, or made past the cache; and what the paper leaves out, the reader that drops its copies.",
    source="cMPI, Figure 11", emulated="The pool is memory of this host: a CXL device adds its own latency to each of them.",
    run=run, order=25, needs="nothing")
