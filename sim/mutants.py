#!/usr/bin/env python3
"""Weakens one place in src/ at a time, and checks whether a test of the simulated pool notices.

A place is a call of an operation of coherence::Memory: a publish then stays in the cache, a store_fence,
load_fence, invalidate or write-back is omitted, a full_fence is only a store_fence. The tests are built
with PENSTOCK_PROOF, so the place is chosen at run time (PENSTOCK_SIM_MUTANT=FILE:LINE:WHAT).

A test has noticed if it fails with each of several draws of its seeds: a lucky draw does not count.
A place that is explained must survive: if a test notices it, the operation there is needed.

    sim/mutants.py --build build                 # all places, seeds drawn anew
    sim/mutants.py --build build --seed 5        # the same seeds again
    sim/mutants.py --build build --only src/sync
"""

import argparse
import collections
import concurrent.futures
import functools
import itertools
import json
import math
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ["src/sync", "src/device", "src/pool", "src/arena", "src/persist", "src/litmus", "src/rma", "src/group", "src/offload", "src/coll", "lab/accelerator", "src/gpu", "src/transport", "src/window", "src/capi"]
EXPLAINED = ROOT / "sim" / "explained_mutants.txt"
SHORT = ROOT / "sim" / "short_mutants.txt"
TIMEOUT_S = 120          # of CPU time
DRAWS = 5                # draws of seeds; each must notice a mutant that counts as killed
MORE_SEEDS = (200, 1000)  # for each scenario, if the usual number finds nothing

# The weaker forms of each call in the source text.
CALLS = {
    r"publish_(?:word|bytes|line|bulk|tagged)|publish_checksummed_line|(?:send|stream)_line|stream_tagged": ["publish"],
    r"observe_(?:word|line|bulk|checksummed_line)|load_checksummed_line": ["invalidate", "load_fence"],
    r"write_back": ["write_back"],
    r"full_fence": ["full_fence"],
    r"store_fence": ["store_fence"],
    r"invalidate": ["invalidate"],
    r"load_fence": ["load_fence"],
    # Operations that are given to a GPU's stream (src/coll/direct_program.cpp).
    r"tell_word": ["publish", "store_fence"],
    r"await_word": ["wait"],
    # The order within a launch (src/coll/fused_program.cpp), and its barriers and fences
    # (src/gpu/fused.hpp).
    r"begin_round|come_behind|sync_threads|sync_and": ["wait"],
    # The order between lanes at the end of a call (src/coll/lane_run.cpp).
    r"has_announced": ["wait"],
    r"release_fence": ["store_fence"],
    # Units of data and flag, and when a block may be written again (src/gpu/flagged.hpp).
    r"store_unit": ["publish"],
    r"has_arrived|may_reuse|must_clear": ["wait"],
}
CALL = re.compile(r"(?:[.>]|\b(?=(?:publish|observe|load)_checksummed_line))(%s)(?:<\w+>)?\(" % "|".join(CALLS))
# These only pass the caller's place on.
WRAPPERS = {"src/arena/region.hpp", "src/persist/device.hpp", "src/persist/line_pair.hpp", "src/coll/own_words.hpp", "src/pool/checksummed_line.hpp"}


def run_limited(command, cpu_s, env, output=subprocess.DEVNULL):
    """Runs a command with a limit of CPU time: on a busy machine the clock says nothing. A command that waits for ever is
    ended by the clock, after ten times as long. Returns its status, or "timeout", and the seconds of CPU time."""
    begun = subprocess.Popen(["prlimit", f"--cpu={cpu_s}:{cpu_s + 5}", "--", *command], env=env, stdout=output,
                             stderr=output)
    late = threading.Timer(10 * cpu_s, begun.kill)
    late.start()
    try:
        _, status, used = os.wait4(begun.pid, 0)
    except BaseException:
        begun.kill()
        raise
    finally:
        late.cancel()  # which would keep an interrupted run alive
    begun.returncode = os.waitstatus_to_exitcode(status)
    at_limit = begun.returncode in (-signal.SIGXCPU, -signal.SIGKILL)
    return "timeout" if at_limit else begun.returncode, used.ru_utime + used.ru_stime


class Test:
    def __init__(self, program, name):
        self.program, self.name = program, name
        self.seconds, self.sites = 0.0, set()  # of CPU time, when it last ran

    def run(self, **environment):
        env = {k: v for k, v in os.environ.items() if not k.startswith("PENSTOCK_")}
        status, self.seconds = run_limited([self.program, f"--gtest_filter={self.name}"], TIMEOUT_S, {**env, **environment})
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
                large = suite.startswith(("Sizes", "Long"))  # they reach no more than small tests
                if with_sizes or not large:
                    tests.append(Test(str(program), suite + line.split("#")[0].strip()))
            else:
                suite = line.split("#")[0].strip()
    if not tests:
        sys.exit(f"no sim_*_test programs in {build}/bin; run: cmake -B {build} && cmake --build {build}")
    return tests


def reach(test, **environment):
    """Runs a test unweakened and records the places that it reached."""
    with tempfile.NamedTemporaryFile(mode="r") as log:
        status = test.run(PENSTOCK_SIM_SITES=log.name, **environment)
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
    """Calls in the text near whose line no test ran a call (a call may span lines)."""
    lines = {}
    for site in reached:
        name, number, kind = site.rsplit(":", 2)
        lines.setdefault((name, kind), set()).add(int(number))
    missing = []
    for (name, kind), numbers in places.items():
        seen = lines.get((name, kind), set())
        missing += [f"{name}:{n}:{kind}" for n in numbers if not any(n <= s <= n + 3 for s in seen)]
    return missing


class Kill:
    """The findings about one place: a test that notices it, and with how many draws of seeds."""

    def __init__(self, test=None, runs=None, hits=0, draws=1):
        self.test, self.runs, self.hits, self.draws = test, runs, hits, draws
        self.seconds = 0.0

    @property
    def sure(self):
        return self.hits == self.draws

    def __str__(self):
        if not self.hits:
            return "noticed by nothing"
        seeds = f", {self.runs} seeds" if self.runs else ""
        return f"{self.test.name} in {self.hits} of {self.draws} draws{seeds}"


def notices(test, site, draw, runs):
    """Returns True if the test fails. Without seeds (`draw` None) it uses its usual ones."""
    environment = {"PENSTOCK_SIM_MUTANT": site}
    if draw is not None:
        environment["PENSTOCK_SIM_FROM"] = str(draw)
    if runs:
        environment["PENSTOCK_SIM_RUNS"] = str(runs)
    status = test.run(**environment)
    if status == "timeout":  # says nothing if the unweakened test may take as long
        return not runs and test.baseline < TIMEOUT_S / 10
    return status != 0


def kill(site, tests, draws, budget_s, likely):
    """Returns the first test that notices with every draw: tries those first that `likely` counts most,
    then quick tests, with more and more seeds until the time is up. If there is none, returns the
    one that noticed with most draws."""
    able = sorted((t for t in tests if site in t.sites), key=lambda t: (-likely[t.name], t.baseline))
    begin, best = time.monotonic(), Kill(draws=len(draws))
    for runs in (None, *MORE_SEEDS):
        for test in able:
            seedless = test.name.endswith("EverySmallSchedule")
            if runs and (seedless or time.monotonic() - begin > budget_s):
                continue
            hits = 0
            if notices(test, site, draws[0], runs):
                others = 0 if seedless else sum(notices(test, site, draw, runs) for draw in draws[1:])
                hits = len(draws) if seedless else 1 + others
            if hits > best.hits:
                best = Kill(test, runs, hits, len(draws))
            if best.sure:
                break
        if best.sure:
            break
    best.seconds = time.monotonic() - begin
    return best


@functools.cache
def explained():
    """place -> argument; a place is FILE:WHAT:TEXT OF THE LINE, so that it survives edits. The
    second line of a file with the same text ends with #2, and so on."""
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


class Memory:
    """Remembers, in the build folder, which test last killed a place, and how long that took, so
    that the next run begins with it. The memory may be old; it changes no result."""

    def __init__(self, build):
        self.path = Path(build) / "mutants.json"
        try:
            self.known = json.loads(self.path.read_text())
        except (OSError, ValueError):
            self.known = {}

    def killers(self, site):
        """How many places of the site's file each test has killed; the killer of the site itself counts most."""
        name = site.split(":")[0]
        counts = collections.Counter(kill[0] for place, kill in list(self.known.items()) if place.split(":")[0] == name)
        if by_text(site) in self.known:
            counts[self.known[by_text(site)][0]] = len(self.known) + 1
        return counts

    def seconds(self, site):
        return self.known.get(by_text(site), [None, math.inf])[1]

    def note(self, site, kill):
        if kill.hits:
            self.known[by_text(site)] = [kill.test.name, kill.seconds]
            self.path.write_text(json.dumps(self.known, indent=0, sort_keys=True))


def drawn(seed):
    """First seeds, far apart from each other."""
    source = random.Random(seed)
    return [source.randrange(1 << 40) for _ in range(DRAWS)]


def fresh():
    return random.SystemRandom().randrange(1 << 32)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build", help="build folder with the sim_*_test programs")
    parser.add_argument("--only", default="", help="only places whose name begins so")
    parser.add_argument("--seed", type=int, default=None, help="of the draws of seeds (default: another each time)")
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
    seed = args.seed if args.seed is not None else fresh()
    sys.exit(weaken(tests, args.jobs, args.budget, Memory(args.build), seed, args.only, args.json))


def places_reached(tests, only):
    """Returns the places to weaken, calls that no test reaches, and explanations of absent
    places."""
    reached = set().union(*(t.sites for t in tests))
    sites = sorted(s for s in reached if s.startswith(tuple(FOLDERS)) and s.startswith(only))
    missing = [m for m in unreached(places_in_sources(), reached) if m.startswith(only)]
    stale = [] if only else sorted(set(explained()) - {by_text(site) for site in sites})
    return sites, missing, stale


def short_sites(sites):
    """Returns the sites that sim/short_mutants.txt lists, and its entries that match none."""
    wanted = [line.strip() for line in SHORT.read_text().splitlines() if line.strip() and line[0] != "#"]
    by_place = {by_text(site): site for site in sites}
    return ([by_place[place] for place in wanted if place in by_place],
            [place for place in wanted if place not in by_place])


def reach_further(tests, jobs, only):
    """Runs tests with more seeds until every place is reached: those that run the file of a missing
    place (all, if no test does), the quick ones first."""
    def files(sites):
        return {site.split(":")[0] for site in sites}

    _, missing, stale = places_reached(tests, only)
    wanted = files(missing + stale)
    unknown = wanted - files(set().union(*(t.sites for t in tests)))
    of_use = [t for t in tests if unknown or wanted & files(t.sites)]
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        left = iter(sorted(of_use, key=lambda t: t.baseline))
        while batch := list(itertools.islice(left, 4 * jobs)):
            list(pool.map(lambda t: reach(t, PENSTOCK_SIM_RUNS="200"), batch))
            _, missing, stale = places_reached(tests, only)
            if not missing and not stale:
                return


def weaken(tests, jobs, budget_s, memory, seed=None, only="", json_path=None):
    """For tests that know which places they reach. Without a seed: the short list, with the
    tests' own seeds. Returns 0 if every mutant was killed, or is explained and was not."""
    sites, missing, stale = places_reached(tests, only)
    if (missing or stale) and seed is not None:  # few seeds may have missed a rare schedule
        print("mutants: not reached yet, tries more seeds:", *missing, *stale, sep="\n  ", flush=True)
        reach_further(tests, jobs, only)
        sites, missing, stale = places_reached(tests, only)
    draws = [None]
    absent = []
    if seed is None:
        for place in missing + stale:  # with these few seeds; make prove uses more before it judges
            print(f"mutants: not reached here: {place}")
        missing = stale = []
        sites, absent = short_sites(sites)
        print(f"mutants: the {len(sites)} places of {SHORT.name}")
    else:
        draws = drawn(seed)
        sites.sort(key=memory.seconds, reverse=True)  # the long ones first, so that all cores end together
        print(f"mutants: {len(sites)} places, {len(draws)} draws of seeds each, --seed {seed}", flush=True)
    kills = {}
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        tasks = {pool.submit(lambda one: kill(one, tests, draws, budget_s, memory.killers(one)), site): site for site in sites}
        for task in concurrent.futures.as_completed(tasks):
            site = tasks[task]
            kills[site] = task.result()
            memory.note(site, kills[site])
            print(f"{site:<58} {verdict(site, kills[site])}", flush=True)
    for place in absent:
        print(f"{SHORT.name} lists what is not there, or what no test reaches: {place}")
    bad = judge(kills, missing, stale, json_path) + len(absent)
    killed, total = sum(k.sure for k in kills.values()), len(kills)
    print(f"mutants: {killed} of {total} killed, {len(missing)} not reached, "
          f"{'no unexplained survivor' if bad == 0 else f'{bad} faults'}")
    return 1 if bad else 0


def verdict(site, kill):
    argument = explained().get(by_text(site))
    if argument:
        return f"IS NEEDED, its explanation is wrong: {kill}" if kill.hits else f"explained: {argument}"
    return f"killed by {kill}" if kill.sure else f"SURVIVED: {kill}"


def judge(kills, missing, stale, json_path):
    """Prints the faults and a line for each folder; returns the number of faults."""
    known = explained()
    bad = len(missing) + len(stale)
    score = {}
    for site, kill in kills.items():
        argument = known.get(by_text(site))
        bad += bool(kill.hits) if argument else not kill.sure
        counts = score.setdefault(site.split("/")[1], [0, 0, 0])
        counts[0] += kill.sure
        counts[1] += not kill.hits and bool(argument)
        counts[2] += 1
    for site in missing:
        print(f"{site:<58} NOT REACHED by any test")
    for place in stale:
        print(f"{EXPLAINED.name} explains what is not there: {place}")
    for folder, (killed, argued, total) in sorted(score.items()):
        print(f"mutants: src/{folder}: {killed} killed of {total}" + (f", {argued} explained" if argued else ""))
        if json_path:
            with open(json_path, "a") as out:
                out.write(json.dumps({"protocol": folder, "method": "mutants", "mutants_killed": killed,
                                      "mutants_explained": argued, "mutants_total": total}) + "\n")
    return bad


if __name__ == "__main__":
    main()
