#!/usr/bin/env python3
"""Runs all checks of the protocols, and prints one table of their results.

    proof/prove.py --build build            # everything, as `make prove` does
    proof/prove.py --build build --short    # as CI does: few seeds, a few mutants, always the same

Without --short, random schedules and deaths use seeds that are drawn and printed each time
(--seed sets them). A failure prints how to replay it.
"""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "sim"))
import mutants  # noqa: E402

LONG_RUNS = 200          # seeds, or deaths, of each scenario
LONG_TIMEOUT_S = 1500
SHORT_TIMEOUT_S = 300
MUTANT_SECONDS = 60      # for a mutant that survives at first
FUZZ_SECONDS = 20        # for each target
SOAK_MINUTES = 5         # for jobs that draw collectives and messages
SWITCH_MINUTES = 1       # for the job whose collectives use a spine and two leaves
ONCE = ("Sizes", "Long", "Canary")  # suites that more seeds make slower, not better


class Step:
    """One program, its output, and how it ended: at the latest after `timeout` seconds of CPU time."""

    def __init__(self, command, timeout, environment=None):
        self.command = [str(part) for part in command]
        env = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_")}
        with tempfile.TemporaryFile() as output:
            status, self.seconds = mutants.run_limited(self.command, timeout, {**env, **(environment or {})}, output)
            output.seek(0)
            self.output = output.read().decode(errors="replace")
        self.ok = status == 0
        if status == "timeout":
            self.output += f"\nno end within {timeout} s of CPU time, or {10 * timeout} s by the clock\n"


def simulated(args, log):
    """Runs all scenarios of the simulated pool, several at a time. Returns the tests and the
    failures."""
    begin = time.monotonic()
    timeout = SHORT_TIMEOUT_S if args.short else LONG_TIMEOUT_S
    tests = mutants.tests_of(args.build, with_sizes=True, with_canaries=True)
    if args.short:
        tests = [t for t in tests if not t.name.startswith("Long/")]

    def run(test):
        with tempfile.NamedTemporaryFile(mode="r") as sites:
            environment = {"PENSTOCK_SIM_LOG": log, "PENSTOCK_SIM_SITES": sites.name}
            if not args.short:
                environment["PENSTOCK_SIM_FROM"] = str(args.seed)
                if not test.name.startswith(ONCE):
                    environment["PENSTOCK_SIM_RUNS"] = str(LONG_RUNS)
            step = Step([test.program, f"--gtest_filter={test.name}"], timeout, environment)
            test.sites = {line.split()[0] for line in sites}
            test.baseline = step.seconds
        return test, step

    failed = []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for test, step in pool.map(run, tests):
            for line in step.output.splitlines():
                if any(mark in line for mark in (" seeds from ", ", seeds ", " schedules with ")):
                    print(f"  {line}", flush=True)
            if not step.ok:
                failed.append(test.name)
                print(step.output, flush=True)
    longest = ", ".join(f"{t.name} {t.baseline:.0f} s" for t in sorted(tests, key=lambda t: -t.baseline)[:5])
    print(f"simulated pool: {len(tests) - len(failed)} of {len(tests)} scenarios hold, "
          f"{time.monotonic() - begin:.0f} s, of CPU time {sum(t.baseline for t in tests):.0f} s; most: {longest}", flush=True)
    return tests, failed


def weakened(args, tests, log):
    """Runs the mutants: all of them, or a few fixed ones."""
    small = [t for t in tests if not t.name.startswith(ONCE)]
    memory = mutants.Memory(args.build)
    seed = None if args.short else args.seed
    begin = time.monotonic()
    bad = mutants.weaken(small, args.jobs, MUTANT_SECONDS, memory, seed, json_path=log)
    print(f"mutants: {time.monotonic() - begin:.0f} s", flush=True)
    return bad == 0


def drawn_tests(args):
    """Runs tests of real memory and real processes that draw at random, with other seeds than
    usual. Returns the commands that failed, as others() does."""
    failed = []
    for program in ("arena_test", "arena_parts_test", "crash_test"):
        step = Step([Path(args.build, "bin", program)], LONG_TIMEOUT_S, {"TEST_SEED": str(args.seed)})
        print("\n".join(line for line in step.output.splitlines() if line.startswith("crash points:")), flush=True)
        if not step.ok:
            failed.append(f"TEST_SEED={args.seed} {' '.join(step.command)}")
            print(step.output, flush=True)
    return failed


def others(args, log):
    """Runs spin, the fuzzers, and jobs of real processes; each prints what it did."""
    steps = [[ROOT / "proof/spin/run.py", *([] if args.short else ["--mutants"]), "--jobs", args.jobs,
              "--json", log]]
    if not args.short and not args.no_fuzz:
        steps.append([ROOT / "fuzz/run.py", "--seconds", FUZZ_SECONDS, "--jobs", args.jobs, "--json", log])
    if not args.short and args.soak_minutes > 0:
        steps.append([ROOT / "tests/e2e/collectives_soak.py", "--minutes", args.soak_minutes, "--seed", args.seed])
    if args.short:
        steps.append([ROOT / "tests/e2e/switch_soak.py", "--short", "--seed", 1])
    elif args.soak_minutes > 0:
        steps.append([ROOT / "tests/e2e/switch_soak.py", "--minutes", SWITCH_MINUTES, "--seed", args.seed])
    failed = []
    for command in steps:
        step = Step(command, 3600 + 60 * args.soak_minutes, {"E2E_PENSTOCK": str(Path(args.build, "bin/penstock").resolve())})
        print(step.output, flush=True)
        if not step.ok:
            failed.append(" ".join(step.command))
    return failed


def rows_of(log):
    """(protocol, method) -> schedules or states explored, mutants, deaths."""
    rows = {}
    for line in Path(log).read_text().splitlines():
        entry = json.loads(line)
        row = rows.setdefault((entry["protocol"], entry["method"]),
                              {"explored": 0, "killed": 0, "explained": 0, "mutants": 0, "survived": 0,
                               "deaths": 0})
        runs = entry.get("runs", 0)
        if entry["method"] in ("crash points", "deaths within a line"):
            row["deaths"] += runs
            row["survived"] += runs - entry["failures"]
        row["explored"] += entry.get("states", runs)
        row["killed"] += entry.get("mutants_killed", 0)
        row["explained"] += entry.get("mutants_explained", 0)
        row["mutants"] += entry.get("mutants_total", 0)
    return rows


def print_table(rows):
    print(f"\n{'protocol':<20} {'method':<22} {'explored':>12} {'mutants killed':>22} {'deaths survived':>18}")
    for (protocol, method), row in sorted(rows.items()):
        killed = f"{row['killed']}/{row['mutants']}" if row["mutants"] else "-"
        if row["explained"]:
            killed += f" (+{row['explained']} argued)"
        deaths = f"{row['survived']}/{row['deaths']}" if row["deaths"] else "-"
        print(f"{protocol:<20} {method:<22} {row['explored']:>12,} {killed:>22} {deaths:>18}")
    print("\nexplored: seeds or schedules of the simulated pool, states of spin, inputs of the fuzzer\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build", help="build folder with the sim_*_test programs")
    parser.add_argument("--short", action="store_true", help="a few minutes in all")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--no-fuzz", action="store_true")
    parser.add_argument("--soak-minutes", type=float, default=SOAK_MINUTES,
                        help="of jobs that draw collectives and messages at random (%(default)s; 0: none)")
    parser.add_argument("--seed", type=int, default=mutants.fresh(), help="default: another each time")
    args = parser.parse_args()
    if not args.short:
        print(f"prove: --seed {args.seed}", flush=True)
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        Path(log).touch()
        tests, failed = simulated(args, log)
        if not failed and not weakened(args, tests, log):
            failed.append("the mutants")
        failed += [] if args.short else drawn_tests(args)
        failed += others(args, log)
        print_table(rows_of(log))
    print(f"prove: {'FAILED, see above: ' + ', '.join(failed) if failed else 'all of it holds'}, {time.monotonic() - begin:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
