#!/usr/bin/env python3
"""Weakens one place of src/ at a time and looks whether a test of the simulated pool notices.

A place is a call of an operation of coherence::Memory: a publish then stays in the cache, an order,
settle, invalidate or write-back is not done, a full_order is only an order. The tests were built
with PENSTOCK_PROOF, so a place is chosen at run time (PENSTOCK_MUTANT=FILE:LINE:WHAT).

    sim/mutants.py --build build                 # all places
    sim/mutants.py --build build --sample 12     # a few, drawn anew
    sim/mutants.py --build build --only src/sync
"""

import argparse
import concurrent.futures
import functools
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["src/sync", "src/pool", "src/arena", "src/litmus", "src/rma", "src/transport", "src/window", "src/abi"]
EXPLAINED = ROOT / "sim" / "explained_mutants.txt"
TIMEOUT_S = 120

# What a call in the source text can be weakened to.
CALLS = {
    r"publish_(?:word|line|bulk|sealed)|publish_sealed_line": ["publish"],
    r"observe_(?:word|line|bulk|sealed_line)": ["invalidate", "settle"],
    r"write_back": ["write_back"],
    r"full_order": ["full_order"],
    r"order": ["order"],
    r"invalidate": ["invalidate"],
    r"settle": ["settle"],
}
CALL = re.compile(r"(?:[.>]|\b(?=publish_sealed_line|observe_sealed_line))(%s)(?:<\w+>)?\(" % "|".join(CALLS))
# These only pass the caller's place on.
WRAPPERS = {"src/arena/region.hpp", "src/pool/sealed_line.hpp"}


class Test:
    def __init__(self, program, name):
        self.program, self.name = program, name
        self.seconds, self.sites = 0.0, set()

    def run(self, **environment):
        env = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_")}
        env.update(environment)
        begin = time.monotonic()
        try:
            status = subprocess.run(
                [self.program, f"--gtest_filter={self.name}"], env=env, timeout=TIMEOUT_S,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode
        except subprocess.TimeoutExpired:
            status = "timeout"
        self.seconds = time.monotonic() - begin
        return status


def tests_of(build, with_sizes=False, with_canaries=False):
    tests = []
    for program in sorted(Path(build, "bin").glob("sim_*_test")):
        if program.name == "sim_canary_test" and not with_canaries:
            continue  # runs no source of src/
        listing = subprocess.run([program, "--gtest_list_tests"], capture_output=True, text=True,
                                 check=True).stdout
        suite = ""
        for line in listing.splitlines()[1:]:
            if line.startswith("  "):
                large = suite.startswith(("Sizes", "Long"))  # nothing that small tests lack
                if with_sizes or not large:
                    tests.append(Test(str(program), suite + line.split("#")[0].strip()))
            else:
                suite = line.split("#")[0].strip()
    if not tests:
        sys.exit(f"no sim_*_test programs in {build}/bin; run: cmake -B {build} && cmake --build {build}")
    return tests


def reach(test, **environment):
    """Runs a test unweakened and notes the places that it reached."""
    with tempfile.NamedTemporaryFile(mode="r") as log:
        status = test.run(PENSTOCK_SITES=log.name, **environment)
        test.sites |= {line.split()[0] for line in log}
    return status


def places_in_sources():
    places = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).glob("*.[ch]pp")):
            name = str(path.relative_to(ROOT))
            if "test" in path.name or name in WRAPPERS:
                continue
            for number, line in enumerate(path.read_text().splitlines(), 1):
                code = line.split("//")[0]
                for call in CALL.finditer(code):
                    kinds = next(v for k, v in CALLS.items() if re.fullmatch(k, call.group(1)))
                    for kind in kinds:
                        places.setdefault((name, kind), []).append(number)
    return places


def unreached(places, reached):
    """Calls in the text near whose line no call was seen to run (a call may span lines)."""
    lines = {}
    for site in reached:
        name, number, kind = site.rsplit(":", 2)
        lines.setdefault((name, kind), set()).add(int(number))
    missing = []
    for (name, kind), numbers in places.items():
        seen = lines.get((name, kind), set())
        missing += [f"{name}:{n}:{kind}" for n in numbers if not any(n <= s <= n + 3 for s in seen)]
    return missing


def kill(site, tests, budget_s):
    """The first test that notices, quick ones first, with ever more seeds until the time is up."""
    able = sorted((t for t in tests if site in t.sites), key=lambda t: t.baseline)
    begin = time.monotonic()
    for runs in [None, 200, 1000, 5000]:
        for test in able:
            if runs and (test.name.endswith("EverySmallSchedule") or time.monotonic() - begin > budget_s):
                continue
            environment = {"PENSTOCK_MUTANT": site}
            if runs:
                environment["PENSTOCK_SIM_RUNS"] = str(runs)
            status = test.run(**environment)
            if status == "timeout" and (runs or test.baseline > TIMEOUT_S / 10):
                continue  # it takes as long unweakened: says nothing
            if status != 0:
                return f"{test.name} ({runs} seeds)" if runs else test.name
    return None


@functools.cache
def explained():
    """place -> argument; a place is FILE:WHAT:TEXT OF THE LINE, so that it survives edits. The second
    line of a file with the same text ends with #2, and so on."""
    result = {}
    if EXPLAINED.exists():
        for line in EXPLAINED.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                place, argument = line.split(" | ", 1)
                result[place.strip()] = argument.strip()
    return result


def by_text(site):
    name, number, kind = site.rsplit(":", 2)
    lines = [line.strip() for line in (ROOT / name).read_text().splitlines()]
    if int(number) > len(lines):
        return f"{name}:{kind}:?"
    text = lines[int(number) - 1]
    count = lines[:int(number)].count(text)
    return f"{name}:{kind}:{text}" + (f" #{count}" if count > 1 else "")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build", help="build folder with the sim_*_test programs")
    parser.add_argument("--only", default="", help="only places whose name begins so")
    parser.add_argument("--sample", type=int, default=0, help="only so many, drawn at random from those that are not explained")
    parser.add_argument("--seed", type=int, default=None, help="of the draw")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--budget", type=int, default=60, help="seconds for what survives at first")
    parser.add_argument("--json", help="append one JSON object a folder to this file")
    return parser.parse_args()


def main():
    args = arguments()
    tests = tests_of(args.build)
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for test, status in zip(tests, pool.map(reach, tests)):
            test.baseline = test.seconds
            if status != 0:
                sys.exit(f"mutants: {test.name} fails before anything is weakened ({test.program})")
    sys.exit(weaken(tests, args.jobs, args.budget, args.only, args.sample, args.seed, args.json))


def places_reached(tests, only):
    """Places to weaken, calls that no test reaches, explanations of what is not there."""
    reached = set().union(*(t.sites for t in tests))
    sites = sorted(s for s in reached if s.startswith(tuple(FOLDERS)) and s.startswith(only))
    missing = [m for m in unreached(places_in_sources(), reached) if m.startswith(only)]
    stale = [] if only else sorted(set(explained()) - {by_text(site) for site in sites})
    return sites, missing, stale


def weaken(tests, jobs, budget_s, only="", sample=0, seed=None, json_path=None):
    """Of tests that know which places they reach. 0: every mutant was killed or is explained."""
    sites, missing, stale = places_reached(tests, only)
    if missing or stale:  # few seeds may have passed a rare schedule by
        print(f"mutants: {len(missing) + len(stale)} places not reached, tries more seeds", flush=True)
        with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
            list(pool.map(lambda t: reach(t, PENSTOCK_SIM_RUNS="200"), tests))
        sites, missing, stale = places_reached(tests, only)
    if sample:
        seed = seed if seed is not None else random.SystemRandom().randrange(1 << 32)
        sites = [s for s in sites if by_text(s) not in explained()]  # those take their whole budget, and say nothing
        print(f"mutants: {sample} of {len(sites)} places, drawn with --seed {seed}")
        sites = random.Random(seed).sample(sites, min(sample, len(sites)))
    killers = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for site, killer in zip(sites, pool.map(lambda s: kill(s, tests, budget_s), sites)):
            killers[site] = killer
            print(f"{site:<58} {verdict(site, killer)}", flush=True)
    return judge(killers, missing, stale, json_path)


def verdict(site, killer):
    argument = explained().get(by_text(site))
    return f"killed by {killer}" if killer else f"explained: {argument}" if argument else "SURVIVED"


def judge(killers, missing, stale, json_path):
    known = explained()
    bad = len(missing) + len(stale)
    score = {}
    for site, killer in killers.items():
        argument = known.get(by_text(site))
        bad += not killer and not argument
        counts = score.setdefault(site.split("/")[1], [0, 0, 0])
        counts[0] += bool(killer)
        counts[1] += not killer and bool(argument)
        counts[2] += 1
    for site in missing:
        print(f"{site:<58} NOT REACHED by any test")
    for place in stale:
        print(f"{EXPLAINED.name} explains what is not there: {place}")
    for folder, (killed, argued, total) in score.items():
        print(f"mutants: src/{folder}: {killed} killed of {total}" + (f", {argued} explained" if argued else ""))
        if json_path:
            with open(json_path, "a") as out:
                out.write(json.dumps({"protocol": folder, "method": "mutants", "mutants_killed": killed,
                                      "mutants_explained": argued, "mutants_total": total}) + "\n")
    killed, total = sum(bool(k) for k in killers.values()), len(killers)
    print(f"mutants: {killed} of {total} killed, {len(missing)} not reached, "
          f"{'no unexplained survivor' if bad == 0 else f'{bad} unexplained'}")
    return 1 if bad else 0


if __name__ == "__main__":
    main()
