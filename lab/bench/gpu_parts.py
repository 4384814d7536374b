"""The parts of gpu.py: each has a name and a function that uses the Runner. Figures go to the Runner's results."""

import json
import os
import re
import socket
import subprocess
import tempfile
import time

from gpu_runner import LeftOut, run_within

OPERATIONS = "all_reduce,all_gather,reduce_scatter,broadcast,alltoall"
KB, MB, GB = 1 << 10, 1 << 20, 1 << 30


def baseline(measuring):
    """A failure of a foreign library does not count as ours."""
    try:
        return measuring()
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        raise LeftOut(f"the baseline failed by itself: {str(error)[-300:]}") from error


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


# ---- right answers --------------------------------------------------------------------------------------------------

def unit_tests(run):
    limit = run.left(120)
    try:
        done = subprocess.run([run.bundle / "bin/gpu_test"], capture_output=True, text=True, timeout=limit, check=False,
                              env=run.environment(PENSTOCK_SIM_CUDA="libcuda.so.1"))
    except subprocess.TimeoutExpired as late:  # its output so far is bytes
        begun = re.findall(r"RUN +\] (\S+)", (late.stdout or b"").decode(errors="replace"))
        raise RuntimeError(f"not done in {limit:.0f} s: it was in {begun[-1] if begun else 'no test yet'}") from late
    if done.returncode != 0:
        raise RuntimeError(done.stdout[-900:] + done.stderr[-300:])
    return done.stdout.strip().splitlines()[-1].strip()


def told(run, what):
    """Rank 1 dies or aborts, and rank 0 must be told."""
    try:
        return run.ranks(2, "nccl_calls", what, limit=40).strip()
    except RuntimeError as error:
        if what == "death" and "rank 1: status -9" in str(error):
            return "told"
        raise


def sanitize(run, tool):
    sanitizer = run.find_sanitizer()
    if not run.gpu:
        raise LeftOut("it needs a GPU")
    if sanitizer is None:
        raise LeftOut("no compute-sanitizer in PATH, CUDA_HOME, /usr/local/cuda* or pip's NVIDIA packages")
    return run.ranks(2, "nccl_calls", "short", limit=50,
                     prefix=[sanitizer, "--tool", tool, "--error-exitcode", "9", "--target-processes", "all"]).strip()


def correctness(run):
    run.part("executor: all collectives, types, operations", lambda: unit_tests(run))
    for number in (2, 3, 4) if run.gpu else (2,):
        run.part(f"libnccl.so.2: every call, {number} ranks", lambda number=number: run.ranks(number, "nccl_calls", "calls", limit=60).strip())
    run.part("libnccl.so.2: every call in memory of the pool, 2 ranks",
             lambda: run.ranks(2, "nccl_calls", "calls" if run.gpu else "short", limit=60, PENSTOCK_NCCL_MEMORY="pool").strip())
    for what in ("death", "abort"):
        run.part(f"libnccl.so.2: {what} of a rank", lambda what=what: told(run, what))


# ---- limits and collectives -----------------------------------------------------------------------------------------

def limits(run, processes):
    rows = json_lines(run.ranks(processes, "gpu_limits", GB if run.gpu else MB, limit=60))
    run.results["limits"] += rows
    return f"{len(rows)} measurements"


def measure(run, library, number, operations, least, most, limit=60, **more):
    calls = 1000 if run.gpu else 2
    rows = json_lines(run.ranks(number, "nccl_perf", operations, least, most, calls, limit=limit, **more))
    run.results["measured"] += [{"library": library, **row} for row in rows]
    return f"{len(rows)} measurements"


def collectives(run):
    """Measures Penstock and NVIDIA's library in turn."""
    least, most, size = (16, 64 * MB, "4G") if run.gpu else (KB, 64 * KB, "256M")
    for turn in (1, 2) if run.gpu else (1,):
        run.part(f"penstock, 2 ranks, turn {turn}", lambda: measure(run, "penstock", 2, OPERATIONS, least, most, PENSTOCK_SIZE=size))
        run.part(f"NCCL over sockets, 2 ranks, turn {turn}",
                 lambda: baseline(lambda: measure(run, "NCCL sockets", 2, OPERATIONS, least, most, **run.nccl_over_sockets())))
    if run.gpu:
        run.part("penstock, 4 ranks", lambda: measure(run, "penstock", 4, OPERATIONS, least, most, PENSTOCK_SIZE=size))


def small_calls(run):
    """Compares one launch a call with streams that keep the protocol, in turn: for processes,
    which get slices of the GPU's time, and for threads of one process, whose kernels run side by
    side as those of ranks with a GPU each do."""
    operations, most, calls = ("all_reduce,all_gather,broadcast", 64 * KB, 1000) if run.gpu else ("all_reduce", KB, 2)
    for turn in (1, 2, 3) if run.gpu else (1,):
        for way, job in (("processes", run.ranks), ("threads", run.threads)):
            for form, fused in (("one launch", "64K"), ("streams", 0)):
                def measuring(way=way, job=job, form=form, fused=fused):
                    rows = json_lines(job(2, "nccl_perf", operations, 16, most, calls, limit=30, PENSTOCK_GPU_FUSED_BYTES=fused,
                                          PENSTOCK_SIZE="1G" if run.gpu else "256M"))
                    run.results["small"] += [{"form": form, "ways": way, **row} for row in rows if "bus_GBps" in row]
                    return f"{len(rows)} measurements"
                run.part(f"small calls, 2 {way}, {form}, turn {turn}", measuring)


def plans(run):
    """Measures numbers of chunks, and the variants of the paper's comparison."""
    sizes, size = ((256 * MB, GB), "4G") if run.gpu else ((512 * KB,), "256M")
    for chunks in (1, 2, 4, 8, 16, 64) if run.gpu else (1, 4):
        for most in sizes:
            run.part(f"chunks={chunks}, {most // KB} KB", lambda chunks=chunks, most=most: measure(
                run, f"penstock chunks={chunks}", 2, "all_gather", most, most, limit=30, PENSTOCK_COLL_PLAN=f"chunks={chunks}",
                PENSTOCK_SIZE=size))
    for variant in ("naive", "aggregate", "all"):
        run.part(f"variant={variant}", lambda variant=variant: measure(
            run, f"penstock variant={variant}", 2, "all_gather,reduce_scatter", sizes[0], sizes[0], limit=30,
            PENSTOCK_COLL_PLAN=f"variant={variant}", PENSTOCK_SIZE=size))


# ---- NVIDIA's nccl-tests --------------------------------------------------------------------------------------------

def nccl_test(run, library, program, **more):
    """Returns sizes, times and errors of one of its programs, run by two processes on GPU 0."""
    path = run.bundle / "nccl-tests" / f"{program}_perf"
    if not run.gpu:
        raise LeftOut("it needs a GPU")
    if not os.access(path, os.X_OK):
        raise LeftOut("it is not in the bundle: ci/nccl_tests.sh says what it needs")
    with tempfile.TemporaryDirectory(prefix="penstock-gpu-", dir="/dev/shm") as folder:
        said = run.job([[path, "-b", "16", "-e", "64M", "-f", "8", "-n", "5", "-w", "2", "-c", "1"]] * 2, 40,
                       [run.environment(SMALL_MPI=f"{rank} 2 {folder}/mpi", NCCL_TESTS_DEVICE=0, NCCL_HOSTID=rank, **more) for rank in range(2)])
    rows = nccl_test_rows(said)
    run.results["nccl_tests"] += [{"library": library, "program": program, **row} for row in rows]
    wrong = sum(row["wrong"] for row in rows)
    if wrong or not rows:
        raise RuntimeError(f"{wrong} wrong values in {len(rows)} sizes: {said[-300:]}")
    return f"{len(rows)} sizes, no wrong value"


def nccl_test_rows(text):
    """Parses the table: size, count, type, operation, root, then time, bandwidths and wrong
    values, out of place and in place."""
    rows = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 13 or not words[0].isdigit():
            continue
        wrong = [0 if word == "N/A" else int(float(word)) for word in (words[8], words[12])]
        rows.append({"bytes": int(words[0]), "microseconds": float(words[5]), "bus_GBps": float(words[7]), "wrong": sum(wrong)})
    return rows


def nccl_tests(run):
    for program in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "alltoall"):
        run.part(f"nccl-tests {program}, penstock", lambda program=program: nccl_test(run, "penstock", program, PENSTOCK_SIZE="2G"))
        run.part(f"nccl-tests {program}, NCCL over sockets",
                 lambda program=program: baseline(lambda: nccl_test(run, "NCCL sockets", program, **run.nccl_over_sockets())))


# ---- what of the machine is used ------------------------------------------------------------------------------------

def blocks_of_launches(run, library, aside):
    """The number of blocks of the library's largest kernel; each block takes at most one
    multiprocessor. Penstock logs its launches; NCCL, whose kernels have a block for each
    channel, logs the channels of a collective."""
    pattern = r"launches, of (\d+) blocks at most" if library == "penstock" else r"(\d+) coll channels"
    found = [int(count) for count in re.findall(pattern, aside)]
    return max(found, default=0 if library == "penstock" else None)


def multiprocessors(run, library, **more):
    """For all_gather, which copy engines move, and all_reduce, which kernels reduce; calls of 64
    MB, and of 1 KB by one launch."""
    if not run.gpu and library != "penstock":
        raise LeftOut("it needs a GPU")
    told = {"PENSTOCK_LOG": "info", "NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT", **more}
    words = []
    for operation, count, fused in (("all_gather", 64 * MB, 0), ("all_reduce", 64 * MB, 0), ("all_reduce", KB, "64K")):
        count = count if run.gpu else min(count, 256 * KB)
        said = run.ranks(2, "nccl_perf", operation, count, count, 2, limit=30, PENSTOCK_GPU_FUSED_BYTES=fused, **told)
        blocks = blocks_of_launches(run, library, run.said_aside + said)
        run.results["multiprocessors"].append({"library": library, "operation": operation, "bytes": count, "blocks": blocks})
        words.append(f"{operation} of {count // KB} KB: {'not told' if blocks is None else blocks}")
    return "blocks of a kernel at most: " + ", ".join(words)


def utilization(run, library, **more):
    """During all_gather of 64 MB: the share of time in which a kernel ran on some SM, by
    nvidia-smi."""
    if not run.gpu:
        raise LeftOut("it needs a GPU")
    command = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", "-lms", "100"]
    try:
        watch = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    except OSError:
        raise LeftOut("no nvidia-smi") from None
    try:
        rows = json_lines(run.ranks(2, "nccl_perf", ",".join(["all_gather"] * 30), 64 * MB, 64 * MB, limit=40, **more))
    finally:
        watch.terminate()
        said, _ = watch.communicate()
    samples = sorted(int(word) for word in re.findall(r"^\d+", said, re.MULTILINE))
    busy = [row["cpu_seconds"] / row["seconds"] for row in rows if "cpu_seconds" in row]
    result = {"library": library, "gpu_percent": samples[len(samples) // 2] if samples else None, "samples": len(samples),
              "cores_of_rank_0": round(sum(busy) / len(busy), 2) if busy else None}
    run.results["utilization"].append(result)
    return f"{result['gpu_percent']} % of the time a kernel ran; {result['cores_of_rank_0']} cores busy for a rank"


# ---- training by FSDP2 ----------------------------------------------------------------------------------------------

def free_port():
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        return chosen.getsockname()[1]


class Extension:
    """PyTorch's back end; compiled while the first parts run if torch differs from the bundle's."""

    part = "training: PyTorch's back end"

    def __init__(self, run):
        self.run, self.build = run, None
        self.python_path = run.out / "python"
        ready = run.bundle.parent / "python"
        if run.python is None or not run.wants(self.part):
            return
        if not run.gpu:  # the build's own, if it has one
            self.python_path = ready
            return
        package = self.python_path / "penstock/lib"
        package.mkdir(parents=True, exist_ok=True)
        (package / "libpenstock.so.0").unlink(missing_ok=True)
        (package / "libpenstock.so.0").symlink_to(run.bundle.resolve() / "lib/libpenstock.so.0")
        script = os.path.join(os.path.dirname(__file__), "../ci/torch_extension.sh")
        self.build = subprocess.Popen([script, run.python, str(self.python_path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                      start_new_session=True)

    def await_build(self):
        if self.run.python is None:
            raise LeftOut("no Python with torch: --python PATH names one")
        if self.build is not None:
            [(status, said, _)] = run_within([self.build], self.run.left(150))
            self.build = None
            if status == 77:
                raise LeftOut(said.strip())
            if status != 0:
                raise RuntimeError(said[-900:])
            return said.strip()
        if not list(self.python_path.glob("penstock/torch/_c10d_*")):
            raise LeftOut(f"no back end for PyTorch in {self.python_path}")
        return "there"


def train(run, name, backend, extension, **more):
    if run.python is None:
        raise LeftOut("no Python with torch: --python PATH names one")
    if backend == "penstock" and not list(extension.python_path.glob("penstock/torch/_c10d_*")):
        raise LeftOut("PyTorch's back end is not there")
    program = os.path.join(os.path.dirname(__file__), "fsdp.py")
    port = free_port()
    command = [run.python, program, "--backend", backend, "--device", "cuda" if run.gpu else "cpu", "--steps", 6 if run.gpu else 3]
    shared = {"WORLD_SIZE": 2, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "PYTHONPATH": extension.python_path, "OMP_NUM_THREADS": 1,
              "PENSTOCK_SIZE": "8G" if run.gpu else "256M", **more}
    environments = [run.environment(RANK=rank, LOCAL_RANK=0, NCCL_HOSTID=rank, **shared) for rank in range(2)]
    for environment in environments:  # torch finds its own libraries by itself, and gets NVIDIA's driver where there is one
        environment["LD_LIBRARY_PATH"] = os.environ.get("LD_LIBRARY_PATH", "")
    row = json_lines(run.job([command] * 2, 75, environments))[0]
    known = [other for other in run.results["training"] if other["backend"] != name]
    run.results["training"].append({**row, "backend": name})
    words = f"{row['parameters'] / 1e6:.1f} M parameters, {1 / row['median_seconds']:.3f} steps/s"
    if not known:
        return words
    apart = max(abs(a - b) for a, b in zip(row["losses"], known[0]["losses"]))
    if not apart < 0.05:
        raise AssertionError(f"{words}; its losses differ from those of {known[0]['backend']} by {apart:.2g}")
    return f"{words}; losses differ from those of {known[0]['backend']} by {apart:.2g} at most"


def training(run, extension):
    run.part(extension.part, extension.await_build)
    run.part("training: penstock", lambda: train(run, "penstock", "penstock", extension))
    if run.gpu:
        ours = {"LD_PRELOAD": run.bundle.resolve() / "lib/penstock/nccl/libnccl.so.2"}
        run.part("training: torch's nccl back end over Penstock's libnccl", lambda: train(run, "nccl, Penstock's library", "nccl", extension, **ours))
        run.part("training: NCCL over sockets", lambda: baseline(
            lambda: train(run, "NCCL sockets", "nccl", extension, **run.nccl_over_sockets())))
    run.part("training: gloo", lambda: baseline(lambda: train(run, "gloo", "gloo", extension)))


def run_all(run):
    extension = Extension(run)
    try:
        correctness(run)
        for processes in (1, 2):
            run.part(f"limits, {processes} process{'es' if processes > 1 else ''}", lambda processes=processes: limits(run, processes))
        collectives(run)
        small_calls(run)
        training(run, extension)
        nccl_tests(run)
        for tool in ("memcheck", "racecheck"):
            run.part(f"compute-sanitizer {tool}: the calls' short form, 2 ranks", lambda tool=tool: sanitize(run, tool))
        run.part("utilization, penstock", lambda: utilization(run, "penstock", PENSTOCK_SIZE="4G"))
        run.part("utilization, NCCL over sockets", lambda: baseline(lambda: utilization(run, "NCCL sockets", **run.nccl_over_sockets())))
        run.part("multiprocessors, penstock", lambda: multiprocessors(run, "penstock", PENSTOCK_SIZE="4G" if run.gpu else "256M"))
        run.part("multiprocessors, NCCL over sockets", lambda: baseline(lambda: multiprocessors(run, "NCCL sockets", **run.nccl_over_sockets())))
        plans(run)
    finally:
        if extension.build is not None and extension.build.poll() is None:
            extension.build.kill()
            extension.build.communicate()
    run.results["machine"] = {"cores": os.cpu_count(), "date": time.strftime("%Y-%m-%d")}
