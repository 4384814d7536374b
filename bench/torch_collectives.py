#!/usr/bin/env python3
"""Collectives of PyTorch's tensors through the pool and over gloo, in turn, round after round; steps of the example.

    bench/torch_collectives.py --ops all_reduce --sizes 1024 1048576 --ranks 2

Beside them stands the raw limit of the same run: each rank's block into shared memory, and another's out of it, by
PyTorch's own copies. With more ranks than cores the figures are of the scheduler: only the CPU time of a call, of all
ranks together, is compared then. `--train N` adds N steps of examples/train.py, 0: none.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path

import mpi_jobs

SIZES = [1 << 10, 1 << 20, 64 << 20]
OPS = ["all_reduce", "all_gather", "reduce_scatter"]
BACKENDS = {"gloo": "gloo", "Penstock": "penstock"}
IN_POOL = {"Penstock, tensors in the pool": "penstock-pool"}  # Backend.allocate_tensor
RAW = "raw limit"


def free_port():
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


def ranks_run(options, ranks, command):
    """What rank 0 prints; one rank for each core where there are enough."""
    cores = sorted(os.sched_getaffinity(0))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(mpi_jobs.OWN_VARIABLES)}
    clean |= {"PYTHONPATH": str(Path(options.penstock).resolve().parent.parent / "python"), "OMP_NUM_THREADS": "1",
              "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(ranks),
              "PENSTOCK_NODES": str(min(ranks, 2)), "PENSTOCK_SIZE": options.pool}
    def start(rank):
        bound = {cores[rank]} if ranks <= len(cores) else cores
        return subprocess.Popen([options.python, *command], env={**clean, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                                text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                preexec_fn=lambda: os.sched_setaffinity(0, bound))

    jobs = [start(rank) for rank in range(ranks)]
    try:
        said = [job.communicate(timeout=options.timeout) for job in jobs]
    except subprocess.TimeoutExpired:
        sys.exit(f"{' '.join(command)}: {ranks} ranks are not done after {options.timeout} s: give a longer --timeout, or "
                 "fewer --calls")
    finally:
        for job in jobs:
            if job.poll() is None:
                job.kill()
                job.communicate()
    if any(job.returncode for job in jobs):
        raise RuntimeError(f"{command} failed:\n" + "\n".join(err[-2000:] for _, err in said))
    return said[0][0]


def calls_of(options, ranks):
    """Ranks that share cores take turns, and gloo's calls then take milliseconds."""
    return options.calls if ranks <= mpi_jobs.usable_cores() else max(1, options.calls // 20)


def measure(options, ranks, backend, operations):
    figures = {}
    program = [str(mpi_jobs.ROOT / "bench/torch_rank.py"), backend, ",".join(operations),
               ",".join(map(str, options.sizes)), str(calls_of(options, ranks))]
    for line in ranks_run(options, ranks, program).splitlines():
        operation, size, microseconds, cpu = line.split()
        figures[operation, int(size), "time"] = float(microseconds)
        figures[operation, int(size), "CPU"] = float(cpu)
    return figures


def steps(options, ranks, backend):
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        ranks_run(options, ranks, [str(mpi_jobs.ROOT / "examples/train.py"), "--backend", backend, "--steps",
                                   str(options.train), "--losses", file.name])
        seconds = sorted(json.load(file)["seconds"])
    return {("step",): seconds[len(seconds) // 2] * 1e3}


def print_all(options, ranks, figures):
    columns = list(map(mpi_jobs.size_name, options.sizes))
    pinned = ranks <= mpi_jobs.usable_cores()
    for operation in options.ops:
        for what, unit in (("time", "microseconds"), ("CPU", "microseconds of CPU, all ranks")):
            if what == "time" and not pinned:
                continue
            rows = {name: {(size,): figures[name][operation, size, what] for size in options.sizes}
                    for name in BACKENDS | IN_POOL}
            if what == "time":
                rows[RAW] = {(size,): figures[RAW]["raw", size, what] for size in options.sizes}
            mpi_jobs.compare(f"{operation}: {unit}", rows, [(size,) for size in options.sizes], columns, ["Penstock"],
                             True)


def main():
    parser = mpi_jobs.arguments(__doc__, 5, SIZES)
    parser.add_argument("--python", default=str(mpi_jobs.ROOT / ".venv-torch/bin/python"))
    parser.add_argument("--ops", nargs="+", default=OPS, choices=OPS)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--calls", type=int, default=2000, help="of a measurement at most")
    parser.add_argument("--train", type=int, default=20, metavar="N", help="steps of examples/train.py")
    parser.add_argument("--pool", default="1G", help="size of the temporary pool")
    options = parser.parse_args()
    if not os.access(options.python, os.X_OK):
        sys.exit(f"{options.python} is absent: make torch")
    for ranks in options.ranks:
        mpi_jobs.say_how(options, ranks)
        tasks = {name: partial(measure, options, ranks, backend, options.ops) for name, backend in (BACKENDS | IN_POOL).items()}
        if ranks <= mpi_jobs.usable_cores():
            tasks[RAW] = partial(measure, options, ranks, "gloo", ["raw"])
        print_all(options, ranks, mpi_jobs.medians(mpi_jobs.interleaved(options, tasks)))
    if options.train:
        tasks = {name: partial(steps, options, 2, backend) for name, backend in BACKENDS.items()}
        figures = mpi_jobs.medians(mpi_jobs.interleaved(argparse_without_json(options), tasks))
        mpi_jobs.compare("examples/train.py, 2 ranks: milliseconds of a step", figures, [("step",)], [""], ["Penstock"], True)


def argparse_without_json(options):
    """The figures of the collectives stay in the file."""
    copy = type(options)(**vars(options))
    copy.json = None
    return copy


if __name__ == "__main__":
    main()
