#!/usr/bin/env python3
"""Builds the fuzz targets, replays the committed corpus and looks for more, and prints a table.

    fuzz/run.py --seconds 600                 every target for ten minutes
    fuzz/run.py --only superblock text        some targets
    fuzz/run.py --merge                       puts few inputs with much coverage into fuzz/corpus

Inputs found stay in BUILD/fuzz-corpus/TARGET, crashes in BUILD/fuzz-crashes/TARGET. The exit status
is 1 when there was a crash, a time-out or a leak. See docs/hostile-pools.md.
"""
import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "fuzz" / "corpus"
BUDGET = ["-rss_limit_mb=2048", "-malloc_limit_mb=4096", "-timeout=10", "-close_fd_mask=3"]
# Short: time in the targets advances in steps of 2 ms, whatever they do (fuzz/virtual_time.hpp).
WAITS = {"PENSTOCK_TIMEOUT_MS": "50", "PENSTOCK_LEASE_MS": "40"}
MOST, LONGEST = 64, 256  # committed inputs of a target, and bytes of each
SANITIZERS = {
    # The product reports a failed allocation as an error and does not crash. Forged sizes cannot be
    # allocated.
    "ASAN_OPTIONS": "allocator_may_return_null=1:max_allocation_size_mb=256:"
                    "detect_stack_use_after_return=0",
    "UBSAN_OPTIONS": "print_stacktrace=1",
}


def targets():
    return sorted(path.stem.removeprefix("fuzz_") for path in (ROOT / "fuzz").glob("fuzz_*.cpp"))


def build(folder, jobs):
    configure = ["cmake", "--preset", "fuzz", "-S", str(ROOT), "-B", str(folder)]
    compile_ = ["cmake", "--build", str(folder), "-j", str(jobs), "--target", "fuzz_targets"]
    for command in (configure, compile_):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"fuzz: {' '.join(command)} failed:\n{done.stdout[-6000:]}{done.stderr[-6000:]}")


class Target:
    def __init__(self, name, folder):
        self.name = name
        self.program = folder / "bin" / "fuzz" / name
        self.committed = CORPUS / name
        self.found = folder / "fuzz-corpus" / name
        self.crashes = folder / "fuzz-crashes" / name
        for needed in (self.committed, self.found, self.crashes):
            needed.mkdir(parents=True, exist_ok=True)

    def run(self, *arguments):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_")}
        command = [str(self.program), *BUDGET, *arguments]
        return subprocess.run(command, cwd=self.crashes, env=environment | WAITS | SANITIZERS,
                              capture_output=True, text=True, errors="replace")

    def fuzz(self, seconds, seed):
        before = set(self.crashes.iterdir())
        started = time.monotonic()
        # The corpora are always replayed first, regardless of the time.
        done = self.run(f"-max_total_time={seconds}", f"-seed={seed}", "-print_final_stats=1",
                        f"-artifact_prefix={self.crashes}/", str(self.found), str(self.committed))
        took = max(time.monotonic() - started, 0.001)
        executions = number(r"stat::number_of_executed_units:\s*(\d+)", done.stderr)
        crashes = sorted(set(self.crashes.iterdir()) - before)
        if done.returncode != 0 and not crashes:
            crashes = [committed_culprit(done.stderr) or Path(f"exit status {done.returncode}")]
        return {
            "protocol": self.name, "method": "libFuzzer", "states": executions,
            "seconds": round(took, 1), "per_second": round(executions / took),
            "edges": number(r"cov: (\d+)", done.stderr),
            "corpus": sum(1 for _ in self.committed.iterdir()), "seed": seed,
            "crashes": [str(path) for path in crashes],
            "log": done.stderr if done.returncode != 0 else "",
        }

    def merge(self):
        """Keeps inputs that once crashed; reduces the rest to few inputs that cover much."""
        with tempfile.TemporaryDirectory() as fewest:
            # By edges alone: counting how often each was taken would keep far more inputs than may
            # be committed.
            done = self.run("-set_cover_merge=1", "-use_counters=0", f"-max_len={LONGEST}", fewest,
                            str(self.committed), str(self.found))
            if done.returncode != 0:
                sys.exit(f"fuzz: {self.name}: merge failed:\n{done.stderr[-3000:]}")
            for path in self.committed.iterdir():
                if not path.name.startswith("crash-"):
                    path.unlink()
            found = sorted(Path(fewest).iterdir(), key=lambda path: -path.stat().st_size)
            for path in found[:MOST]:
                shutil.copyfile(path, self.committed / path.name)
        sizes = [path.stat().st_size for path in self.committed.iterdir()]
        print(f"{self.name}: {len(sizes)} inputs, {sum(sizes)} bytes")


def number(pattern, text):
    found = re.findall(pattern, text)
    return int(found[-1]) if found else 0


def committed_culprit(log):
    found = re.search(r"Test unit written to (\S+)", log)
    return Path(found.group(1)) if found else None


def print_table(results):
    print(f"{'target':<18}{'executions':>12}{'exec/s':>9}{'edges':>8}{'corpus':>8}{'crashes':>9}")
    for result in results:
        print(f"{result['protocol']:<18}{result['states']:>12}{result['per_second']:>9}"
              f"{result['edges']:>8}{result['corpus']:>8}{len(result['crashes']):>9}")


def tell_crashes(results, folder):
    for result in results:
        for crash in result["crashes"]:
            print(f"\n{result['protocol']}: {crash}\n{result['log'][-6000:]}", file=sys.stderr)
            print(f"again: {folder}/bin/fuzz/{result['protocol']} {crash}", file=sys.stderr)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=int, default=int(os.environ.get("FUZZ_SECONDS", "600")))
    parser.add_argument("--build", type=Path, default=ROOT / "build-fuzz")
    parser.add_argument("--no-build", action="store_true", help="take what stands in --build")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 2**31))
    parser.add_argument("--only", nargs="+", metavar="TARGET", choices=targets())
    parser.add_argument("--merge", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE", help="append a JSON line a target")
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    folder = arguments.build.resolve()
    if not arguments.no_build:
        build(folder, arguments.jobs)
    chosen = [Target(name, folder) for name in arguments.only or targets()]
    if arguments.merge:
        for target in chosen:
            target.merge()
        return 0
    print(f"fuzz: {arguments.seconds} s a target, seed {arguments.seed}", flush=True)
    with ThreadPoolExecutor(arguments.jobs) as workers:
        results = list(workers.map(lambda t: t.fuzz(arguments.seconds, arguments.seed), chosen))
    print_table(results)
    tell_crashes(results, folder)
    if arguments.json:
        with open(arguments.json, "a") as lines:
            for result in results:
                lines.write(json.dumps({k: v for k, v in result.items() if k != "log"}) + "\n")
    return 1 if any(result["crashes"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
