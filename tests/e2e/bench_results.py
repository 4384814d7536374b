"""Artificial results of `penstock bench`, for tests of their readers. The figures come from a formula and a fixed seed."""

import random

SIZES = [1 << bits for bits in range(3, 24)]
# series -> (microseconds of an empty message, bytes a microsecond, baseline)
TRANSPORTS = {
    "Penstock, software": (0.6, 9_000, False), "Penstock, hardware": (0.5, 3_000, False), "MPI over TCP": (8.5, 11_000, True),
    "raw TCP socket": (5.1, 12_000, True), "MPICH's own shared memory": (0.9, 20_000, True), "libfabric shm": (0.8, 25_000, True),
    "raw limit": (0.28, 17_000, True)}


class Sample:
    """Rows as penstock.bench.model has them."""

    def __init__(self, seed=1):
        self.random = random.Random(seed)

    def row(self, series, op, metric, value, **facts):
        noisy = value * self.random.uniform(0.97, 1.03)
        figure = {"series": series, "group": None, "op": op, "bytes": None, "procs": 2, "metric": metric, "median": noisy,
                  "p50": noisy, "p99": noisy * 1.2, "min": noisy * 0.95, "max": noisy * 1.3,
                  "spread": self.random.uniform(0.01, 0.08), "rounds": 7, "baseline": False, "theirs": False,
                  "serialized": None, "wall": True}
        return {**figure, **facts}

    def messages(self, op, metric, sizes=SIZES, scale=1.0, procs=2, wall=True, **facts):
        rows = []
        for series, (base, rate, baseline) in TRANSPORTS.items():
            for size in sizes:
                time = base * scale + size / rate
                value = size / (time / 8) if metric == "bandwidth_MBps" else time
                serialized = 2 if not baseline and metric == "latency_us" else None
                rows.append(self.row(series, op, metric, value, bytes=size, procs=procs, baseline=baseline, wall=wall,
                                     serialized=serialized, **facts))
        return rows


def plot(name, title, unit, x="bytes", **where):
    return {"id": name, "title": title, "where": where, "x": x, "y": "median", "split": "series", "logx": x != "series",
            "logy": True, "unit": unit}


def experiment(title, rows=(), plots=(), status="ok", reason=None, **more):
    return {"title": title, "about": f"What {title.lower()} are for, in one sentence.", "source": "cMPI, Figures 7 and 8",
            "emulated": "Two nodes are two groups of processes on one host; the pool lies in /dev/shm, which is coherent.",
            "status": status, "reason": reason, "seconds": 42.1, "rows": list(rows), "plots": list(plots), **more}


def _pt2pt(sample):
    rows = sample.messages("latency", "latency_us") + sample.messages("bandwidth", "bandwidth_MBps")
    for procs in (4, 8, 16):
        rows += sample.messages("latency", "latency_us", [8, 65536], scale=procs, procs=procs, wall=False)
        for series, cost in (("Penstock, software", 0.11), ("MPI over TCP", 0.35)):
            rows.append(sample.row(series, "bandwidth", "cpu_s_per_GB", cost * procs / 2, bytes=1 << 20, procs=procs, wall=False,
                                   baseline=series != "Penstock, software"))
    plots = [plot("latency", "Latency, 2 processes", "microseconds, one way", op="latency", metric="latency_us"),
             plot("bandwidth", "Bandwidth, 2 processes", "MB/s", op="bandwidth", metric="bandwidth_MBps"),
             plot("cpu", "CPU time for each GB", "CPU-seconds for each GB", "procs", metric="cpu_s_per_GB")]
    return experiment("Messages between two processes", rows, plots)


def _rma(sample):
    rows, plots = [], []
    for op, scale in (("put pscw", 2.0), ("get pscw", 3.0), ("put lock", 2.5), ("get lock", 3.5)):
        for metric, unit in (("latency_us", "microseconds"), ("bandwidth_MBps", "MB/s")):
            rows += sample.messages(op, metric, SIZES[::2], scale)
            plots.append(plot(f"{op} {metric}", f"{op.capitalize()}, {metric.split('_')[0]}", unit, op=op, metric=metric))
    return experiment("One-sided operations", rows, plots, status="partial", source="cMPI, Figures 5 and 6",
                      reason="libfabric shm, 32 processes: not enough memory in /dev/shm: mount a larger one")


def _table1(sample):
    rows = [sample.row(name, "access", "latency_us", value, baseline=name != "pool, with flush", serialized=serialized)
            for name, value, serialized in (("main memory", 0.095, None), ("pool, with flush", 0.31, 1), ("TCP loopback", 5.2, None))]
    rows += [sample.row(name, "access", "latency_us", value, theirs=True, rounds=1, spread=0)
             for name, value in (("CXL, cached, no flush", 0.79), ("CXL, with flush", 2.2), ("RoCEv2, ConnectX-6 Dx", 1.6))]
    return experiment("Latency and bandwidth of each path", rows, [plot("latency", "Latency", "microseconds", "series", metric="latency_us")],
                      source="cMPI, Table 1")


def _collectives(sample):
    rows = []
    for op, scale in (("allreduce", 4), ("alltoall", 6), ("bcast", 2), ("allgather", 5), ("barrier", 1.5)):
        rows += sample.messages(op, "time_us", [8] if op == "barrier" else [64, 4096, 65536, 1 << 20], scale)
    plots = [plot(op, op.capitalize(), "microseconds", op=op) for op in ("allreduce", "alltoall")]
    return experiment("Collectives", rows, plots, source="cMPI, section 3.6")


def _stream(sample):
    rows = [sample.row(series, kernel, "bandwidth_MBps", value * min(threads, 2) * (1 if kernel in ("copy", "scale") else 1.1),
                       procs=threads, baseline=series == "numa:0", group="2a")
            for series, value in (("numa:0", 11_000), ("pool, software", 7_000), ("pmem + persist", 4_000))
            for kernel in ("copy", "scale", "add", "triad") for threads in (1, 2)]
    plots = [{**plot(kernel, f"{kernel.capitalize()}, class 2a", "MB/s", "procs", op=kernel), "logx": False, "logy": False}
             for kernel in ("copy", "triad")]
    return experiment("STREAM", rows, plots, source="STREAMer, Figures 5 to 8")


def full():
    """The results of a good run, with some experiments absent."""
    sample = Sample()
    experiments = {"table1": _table1(sample), "pt2pt": _pt2pt(sample), "rma": _rma(sample), "collectives": _collectives(sample),
                   "stream": _stream(sample),
                   "persist": experiment("Persistence", status="absent", reason="libpmemobj is absent: apt-get install libpmemobj-dev"),
                   "halo": experiment("Halo exchange", status="failed", reason="mpiexec ended with status 9"),
                   "torch": experiment("PyTorch", status="interrupted", reason="interrupted before it began")}
    machine = {"processor": "AMD EPYC 9654 96-Core Processor", "CPUs": 2, "usable cores": 2, "memory": "24 GiB", "NUMA nodes": 1,
               "NUMA balancing": "off", "governor": None, "hypervisor": True, "steal during the run": "0.1 %",
               "system": "Linux 6.18.44, glibc 2.36", "MPI": "MPICH 5.0.2", "pool": "shm: in /dev/shm, 12 GiB free"}
    return {"schema": 1, "penstock": "0.3.0", "commit": "dfed3b7", "command": "penstock bench run --report build/bench",
            "started": "2026-01-02T03:04:05+00:00", "seconds": 312.4, "quick": False, "machine": machine,
            "warnings": ["load at the start was 2.9 on 2 cores: other programs took time from this run",
                         "the governor is not known: the clock may have changed"], "experiments": experiments}
