#!/usr/bin/env python3
"""What Penstock does on a GPU: right answers, latency and bandwidth beside NVIDIA's NCCL, chunks and variants.

    ci/gpu.sh [OUT]       builds what is needed where it can, runs all of this, leaves gpu.json and gpu.md in OUT

Several ranks share the one GPU. Without a GPU everything runs on the stand-in for NVIDIA's driver, in short form, and
the times mean nothing. Every part has a limit, and a part that fails does not keep the others from running.
"""
import argparse
import ctypes
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent


def gpu_name():
    """None where there is no NVIDIA driver, or it finds no GPU."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    name, device = ctypes.create_string_buffer(256), ctypes.c_int()
    if driver.cuInit(0) != 0 or driver.cuDeviceGet(ctypes.byref(device), 0) != 0:
        return None
    driver.cuDeviceGetName(name, 256, device)
    return name.value.decode()


def find_nccl():
    """NVIDIA's own library, as pip or torch has brought it."""
    for folder in sys.path:
        found = sorted(glob.glob(f"{folder}/nvidia/nccl/lib/libnccl.so.2") + glob.glob(f"{folder}/torch/lib/libnccl.so.2"))
        if found:
            return found[0]
    found = sorted(glob.glob("/usr/lib/*/libnccl.so.2"))
    return found[0] if found else None


class Runner:
    def __init__(self, bundle, gpu, budget):
        self.bundle, self.gpu, self.until = bundle, gpu, time.monotonic() + budget
        self.results = {"gpu": gpu or "stand-in", "parts": [], "measured": []}

    def environment(self, **more):
        libraries = [str(self.bundle / "lib"), str(self.bundle / "lib/penstock/nccl")]
        if not self.gpu:
            libraries.append(str(self.bundle / "standin"))
            more = {"PENSTOCK_SPIN": 1, **more}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "NCCL_"))}
        kept["LD_LIBRARY_PATH"] = ":".join([*libraries, os.environ.get("LD_LIBRARY_PATH", "")])
        return {**kept, "GPU": "1", **{name: str(value) for name, value in more.items()}}

    def ranks(self, number, program, *arguments, limit=60, prefix=(), **more):
        """All ranks of a job; what rank 0 prints. Raises where one of them fails."""
        limit = max(1, min(limit, self.until - time.monotonic()))
        with tempfile.TemporaryDirectory(prefix="penstock-gpu-") as folder:
            jobs = [subprocess.Popen([*prefix, self.bundle / "bin" / program, str(rank), str(number), folder, *map(str, arguments)],
                                     stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
                                     env=self.environment(**{"NCCL_HOSTID": rank, **more}))
                    for rank in range(number)]
            end = time.monotonic() + limit
            try:
                said = [job.communicate(timeout=max(0.1, end - time.monotonic())) for job in jobs]
            finally:
                for job in jobs:
                    if job.poll() is None:
                        os.killpg(job.pid, signal.SIGKILL)
                        job.communicate()
        for rank, (job, (_, err)) in enumerate(zip(jobs, said)):
            if job.returncode != 0:
                raise RuntimeError(f"rank {rank}: status {job.returncode}: {err.strip()[-800:]}")
        return said[0][0]

    def part(self, name, body):
        begin = time.monotonic()
        try:
            words = body() or "ok"
        except Exception as error:  # also a timeout: the next part has its chance
            words = f"FAILED: {str(error)[:900]}"
        seconds = time.monotonic() - begin
        print(f"{name}: {words} ({seconds:.1f} s)", flush=True)
        self.results["parts"].append({"name": name, "outcome": words, "seconds": round(seconds, 1)})

    def measure(self, library, number, operations, least, most, limit=90, **more):
        lines = self.ranks(number, "nccl_perf", operations, least, most, limit=limit, **more).splitlines()
        rows = [{"library": library, **json.loads(line)} for line in lines if line.startswith("{")]
        self.results["measured"] += rows
        return f"{len(rows)} measurements"


def correctness(run, short):
    def unit():
        done = subprocess.run([run.bundle / "bin/gpu_test"], capture_output=True, text=True, timeout=120,
                              env=run.environment(PENSTOCK_TEST_CUDA="libcuda.so.1"))
        if done.returncode != 0:
            raise RuntimeError(done.stdout[-900:] + done.stderr[-300:])
        return done.stdout.strip().splitlines()[-1].strip()
    run.part("executor: all collectives, types, operations", unit)
    for number in (2, 3) if short else (2, 3, 4):
        run.part(f"libnccl.so.2: every call, {number} ranks", lambda number=number: run.ranks(number, "nccl_calls", "calls", limit=60).strip())
    for what in ("death", "abort"):
        def told(what=what):
            try:
                return run.ranks(2, "nccl_calls", what, limit=40).strip()
            except RuntimeError as error:
                if what == "death" and "rank 1: status -9" in str(error):
                    return "told"
                raise
        run.part(f"libnccl.so.2: {what} of a rank", told)
    sanitizer = next((path for path in ("/usr/local/cuda/bin/compute-sanitizer",) if os.access(path, os.X_OK)), None)
    if sanitizer and run.gpu:
        run.part("compute-sanitizer: every call, 2 ranks",
                 lambda: run.ranks(2, "nccl_calls", "calls", limit=120, prefix=[sanitizer, "--error-exitcode", "9"]).strip())


def figures(run, short):
    operations = "all_reduce,all_gather,reduce_scatter,broadcast,alltoall"
    most = 1 << 19 if short else 256 << 20
    for number in (2,) if short else (2, 4):
        run.part(f"penstock, {number} ranks", lambda number=number: run.measure(
            "penstock", number, operations, 8, most, PENSTOCK_SIZE="4G" if not short else "256M"))
    theirs = find_nccl() if run.gpu else None
    if theirs:
        sockets = {"LD_PRELOAD": theirs, "NCCL_NET": "Socket", "NCCL_P2P_DISABLE": 1, "NCCL_SHM_DISABLE": 1,
                   "NCCL_SOCKET_IFNAME": "lo", "NCCL_NET_PLUGIN": "none"}
        run.part("NCCL over sockets, 2 ranks", lambda: run.measure("nccl sockets", 2, operations, 8, 64 << 20, **sockets))
    elif run.gpu:
        run.part("NCCL over sockets", lambda: "not measured: no libnccl.so.2 of NVIDIA's is here")
    for chunks in (1, 4) if short else (1, 2, 4, 8, 16, 64):
        run.part(f"chunks={chunks}", lambda chunks=chunks: run.measure(
            f"penstock chunks={chunks}", 2, "all_gather", most, most, PENSTOCK_COLL_PLAN=f"chunks={chunks}",
            PENSTOCK_SIZE="4G" if not short else "256M"))
    for variant in ("naive", "aggregate", "all"):
        run.part(f"variant={variant}", lambda variant=variant: run.measure(
            f"penstock variant={variant}", 2, "all_gather,reduce_scatter", most, most, PENSTOCK_COLL_PLAN=f"variant={variant}",
            PENSTOCK_SIZE="4G" if not short else "256M"))


def page(results):
    """The results as a page of docs/results."""
    lines = [f"# Collectives of GPUs: {results['gpu']}", "",
             "By `ci/gpu.sh`; ranks are processes that share the one GPU, so their kernels and copies take turns." if results["gpu"] != "stand-in" else
             "By `ci/gpu.sh` on the stand-in for NVIDIA's driver: **the times mean nothing**, only that all of it runs.", "",
             "| part | outcome | s |", "|---|---|---|"]
    for part in results["parts"]:
        words = part["outcome"].replace("|", "/").replace("\n", " ")
        lines.append(f"| {part['name']} | {words[:160]} | {part['seconds']} |")
    copies = [row for row in results["measured"] if row["operation"].startswith("pinned")]
    if copies:
        best = max(row["algorithm_GBps"] for row in copies)
        lines += ["", f"Ceiling of this run: copies of pinned memory, {best:.1f} GB/s one way."]
    lines += ["", "Medians of 7 batches. Bus bandwidth as nccl-tests define it.", "",
              "| library | operation | ranks | bytes | us | bus GB/s |", "|---|---|---|---|---|---|"]
    for row in results["measured"]:
        if "bus_GBps" in row:
            lines.append(f"| {row['library']} | {row['operation']} | {row['ranks']} | {row['bytes']} | {row['seconds'] * 1e6:.1f} | {row['bus_GBps']:.3f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=Path, default=SOURCE / "build/gpu")
    parser.add_argument("--out", type=Path, default=SOURCE / "build/gpu-results")
    parser.add_argument("--seconds", type=int, default=530, help="of all parts together")
    arguments = parser.parse_args()
    gpu = gpu_name()
    print(f"GPU: {gpu}" if gpu else "no GPU here: the stand-in's form", flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    run = Runner(arguments.bundle, gpu, arguments.seconds)
    try:
        correctness(run, not gpu)
        figures(run, not gpu)
    finally:
        (arguments.out / "gpu.json").write_text(json.dumps(run.results, indent=1))
        (arguments.out / "gpu.md").write_text(page(run.results))
    failed = [part["name"] for part in run.results["parts"] if part["outcome"].startswith("FAILED")]
    print(f"gpu: {len(run.results['parts']) - len(failed)} of {len(run.results['parts'])} parts passed; {arguments.out}/gpu.md")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
