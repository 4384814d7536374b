#!/usr/bin/env python3
"""Searches the small worlds of this folder with spin: every state, and every mutant's states.

Comments of a model (NAME.pml) say what to run:

  /* run NAME: -DOPTION=1 ... */        a world
  /* also NAME: -DOPTION=1 ... */       a world in which mutants are not searched
  /* long NAME: -DOPTION=1 ... */       as `also`, with --long only
  #define SITE 3   /* site KIND: its place in the sources */
  /* compile LEVEL: why */              optimization of the verifier when mutants are searched; default -O2
  /* large WORLD ...: why */             worlds whose search takes longer than gcc -O1 on the verifier
  /* equivalent SITE: why the weakened site is also right */
  /* beyond SITE: what these worlds lack to show the difference */

A mutant weakens one site: a publish becomes a plain store; a store_fence, invalidate or load_fence is
omitted; a full_fence becomes a store_fence. It is killed when one world of its model finds an error. The
run fails if a world has an error or could not be searched completely, if a mutant survives that is not
listed as equivalent or beyond, or if a listed one is killed.

Without mutants a verifier runs once, and its search is mostly shorter than gcc's work on it: tcc compiles it then, unless its
world is large.
"""
import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).resolve().parent
SHARED = {"memory.pml"}
MEMORY_MIB = 1500
SECONDS = 240  # of processor time
DEPTH = 1_000_000
ONCE = "once"
INCOMPLETE = re.compile(r"max search depth too small|Search not completed|out of memory|reached -DMEMLIM", re.I)
PROBLEM = re.compile(r"^pan:1: (.*)$", re.M)


@dataclass
class Model:
    name: str
    level: str = "-O2"                              # optimization of the worlds' verifiers, or ONCE
    worlds: list = field(default_factory=list)      # (name, options)
    for_mutants: list = field(default_factory=list) # worlds in which mutants are searched
    sites: list = field(default_factory=list)       # (name, number, kind)
    large: list = field(default_factory=list)       # names of worlds; without mutants
    explained: dict = field(default_factory=dict)   # site: (equivalent or beyond, why)


@dataclass
class Search:
    errors: int = 0
    problem: str = ""
    complete: bool = False
    states: int = 0
    transitions: int = 0
    depth: int = 0
    mib: float = 0.0
    seconds: float = 0.0


def read_model(path, with_long=False, with_mutants=True):
    text = path.read_text()
    model = Model(path.stem)
    found = re.findall(r"/\* (run|also|long) (\S+):([^*]*)\*/", text)
    model.worlds = [(name, options.split()) for kind, name, options in found if kind != "long" or with_long]
    model.for_mutants = [(name, options.split()) for kind, name, options in found if kind == "run"]
    level = re.search(r"/\* compile (-O\d):", text)
    if not with_mutants:
        model.level = ONCE
        model.large = re.findall(r"\w+", " ".join(re.findall(r"/\* large ([\w ]+):", text)))
    elif level:
        model.level = level.group(1)
    model.sites = re.findall(r"^#define (\w+) +(\d+) +/\* site (\w+):", text, flags=re.M)
    found = re.findall(r"/\* (equivalent|beyond) (\w+): (.*?)\*/", text, flags=re.S)
    model.explained = {site: (kind, " ".join(why.split())) for kind, site, why in found}
    if not model.for_mutants:
        sys.exit(f"{path}: names no world; write /* run NAME: OPTIONS */")
    unknown = set(model.explained) - {site for site, _, _ in model.sites}
    if unknown:
        sys.exit(f"{path}: explained but no site: {', '.join(sorted(unknown))}")
    return model


def number(pattern, text):
    found = re.search(pattern, text)
    return float(found.group(1)) if found else 0.0


def parse(output):
    search = Search()
    search.errors = int(number(r"errors: (\d+)", output))
    search.states = int(number(r"([\d.e+]+) states, stored", output))
    search.transitions = int(number(r"([\d.e+]+) transitions", output))
    search.depth = int(number(r"depth reached (\d+)", output))
    search.mib = number(r"([\d.]+)\s+total actual memory usage", output)
    found = PROBLEM.search(output)
    search.problem = found.group(1) if found else ""
    search.complete = "errors:" in output and not INCOMPLETE.search(output)
    return search


def limit_processor_time():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))


def call(folder, *command, **environment):
    """Runs the command in the folder, with the limits of a search."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=8 * SECONDS,
                          env=os.environ | environment, preexec_fn=limit_processor_time)


def make_verifier(folder, name, options, level):
    """Builds `pan` in the folder. Returns the error text, empty if there is none."""
    made = call(folder, "spin", "-a", *options, str(HERE / f"{name}.pml"))
    if made.returncode != 0 or "Error" in made.stdout:
        return f"spin: {(made.stdout + made.stderr)[-600:]}"
    compiler = ["tcc"] if level == ONCE and shutil.which("tcc") else [os.environ.get("CC", "gcc"), "-O0" if level == ONCE else level]
    built = call(folder, *compiler, "-w", "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=4096", f"-DMEMLIM={MEMORY_MIB}", "-o", "pan", "pan.c")
    return f"compiler: {built.stderr[-600:]}" if built.returncode != 0 else ""


def run_verifier(folder, mutant=0):
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="penstock-spin-") as trails:
        ran = call(trails, f"{folder}/pan", f"-m{DEPTH}", MUTANT=str(mutant))
    search = parse(ran.stdout + ran.stderr)
    if ran.returncode != 0 and not search.errors:
        search.complete = False
        search.problem = search.problem or f"pan ended with {ran.returncode} (-9: more than {SECONDS} s)"
    search.seconds = time.monotonic() - start
    return search


def search_world(name, options, level):
    with tempfile.TemporaryDirectory(prefix="penstock-spin-") as folder:
        wrong = make_verifier(folder, name, options, level)
        return Search(problem=wrong) if wrong else run_verifier(folder)


def search_mutants(model):
    """For each site: the world that kills its mutant and how, or why its survival is not
    certain. One verifier for each world serves all mutants that are publishes, another one all
    others."""
    verdicts = {site: ("", "", "") for site, _, _ in model.sites}
    for (world, options), publishes in itertools.product(model.for_mutants, (False, True)):
        sites = [site for site in model.sites if (site[2] == "publish") == publishes]
        dirty = ["-DDIRTY_LINES"] if publishes else []
        with tempfile.TemporaryDirectory(prefix="penstock-spin-") as folder:
            wrong = make_verifier(folder, model.name, [*options, "-DMUTANTS", *dirty],
                                  "-O1" if model.level == "-O2" else "-O0")
            for site, site_number, _ in sites:
                if verdicts[site][0]:
                    continue
                search = Search(problem=wrong) if wrong else run_verifier(folder, site_number)
                if search.errors:
                    verdicts[site] = (world, search.problem, "")
                elif not search.complete:
                    doubt = f"{world}: {search.problem or 'not searched wholly'}"
                    verdicts[site] = ("", "", doubt)
    return verdicts


def judge_mutant(model, site, world, doubt):
    """Returns the error in the verdict; empty if there is none."""
    if world and site in model.explained:
        return f"{model.name}: {site} is listed as {model.explained[site][0]} but killed in {world}"
    if not world and doubt:
        return f"{model.name}: mutant {site} was not decided: {doubt}"
    if not world and site not in model.explained:
        return f"{model.name}: mutant {site} survives every world and is not listed as equivalent or beyond"
    return ""


def run_all(jobs, models, with_mutants):
    """(searches of the worlds, verdicts of the mutants)"""
    with concurrent.futures.ThreadPoolExecutor(max(1, jobs)) as pool:
        mutants = [pool.submit(search_mutants, model) for model in models if with_mutants]
        worlds = {(model.name, world): pool.submit(search_world, model.name, options, "-O1" if world in model.large else model.level)
                  for model in models for world, options in model.worlds}
        verdicts = {(model.name, site): verdict for model, job in zip(models, mutants)
                    for site, verdict in job.result().items()}
        return {key: job.result() for key, job in worlds.items()}, verdicts


def print_table(models, worlds, mutants):
    print("| model | world | states | transitions | depth | complete | MiB | s | mutants killed/total |")
    print("|---|---|---|---|---|---|---|---|---|")
    for model in models:
        killed = sum(bool(mutants[model.name, site][0]) for site, _, _ in model.sites) if mutants else 0
        score = f"{killed}/{len(model.sites)}" if mutants else "-"
        if mutants:
            kinds = collections.Counter(kind for kind, _ in model.explained.values())
            score += "".join(f", {count} {kind}" for kind, count in sorted(kinds.items(), reverse=True))
        for world, _ in model.worlds:
            s = worlds[model.name, world]
            complete = "yes" if s.complete and not s.errors else "NO"
            print(f"| {model.name} | {world} | {s.states} | {s.transitions} | {s.depth} | {complete} "
                  f"| {s.mib:.0f} | {s.seconds:.1f} | {score} |")
            score = ""


def print_mutants(models, mutants):
    print("\n| model | site | kind | verdict |\n|---|---|---|---|")
    for model in models:
        for site, _, kind in model.sites:
            world, problem, doubt = mutants[model.name, site]
            verdict = f"killed in {world}: {problem}" if world else doubt or "survives"
            if site in model.explained and not world and not doubt:
                verdict = ": ".join(model.explained[site])
            print(f"| {model.name} | {site} | {kind} | {verdict} |")


def write_json(path, models, worlds, mutants):
    with open(path, "a", encoding="utf-8") as file:
        for model in models:
            searches = [worlds[model.name, world] for world, _ in model.worlds]
            row = {"protocol": model.name, "method": "spin",
                   "states": sum(s.states for s in searches),
                   "transitions": sum(s.transitions for s in searches),
                   "complete": all(s.complete and not s.errors for s in searches)}
            if mutants:
                row["mutants_killed"] = sum(bool(mutants[model.name, site][0]) for site, _, _ in model.sites)
                row["mutants_explained"] = len(model.explained)
                row["mutants_total"] = len(model.sites)
            file.write(json.dumps(row) + "\n")


def complaints(models, worlds, mutants):
    for (name, world), search in worlds.items():
        if search.errors or not search.complete:
            yield f"{name}, world {world}: {search.problem or 'not searched wholly'}"
    for model in models:
        for site, _, _ in model.sites if mutants else []:
            world, _, doubt = mutants[model.name, site]
            wrong = judge_mutant(model, site, world, doubt)
            if wrong:
                yield wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", action="append", help="only this one; may be repeated")
    parser.add_argument("--mutants", action="store_true", help="the mutants too")
    parser.add_argument("--long", action="store_true", help="the mutants, and worlds that take minutes")
    parser.add_argument("--jobs", type=int, default=2, help="searches at once, up to 2 GB each")
    parser.add_argument("--json", metavar="FILE", help="append a line for each model")
    arguments = parser.parse_args()
    if not shutil.which("spin"):
        sys.exit("spin is not installed; to fix: ci/install.sh test, or apt-get install spin")
    paths = [path for path in sorted(HERE.glob("*.pml")) if path.name not in SHARED]
    known = [path.stem for path in paths]
    for name in arguments.model or []:
        if name not in known:
            sys.exit(f"no model {name}; there are {', '.join(known)}")
    with_mutants = arguments.mutants or arguments.long
    models = [read_model(path, arguments.long, with_mutants) for path in paths if path.stem in (arguments.model or known)]
    start = time.monotonic()
    worlds, mutants = run_all(arguments.jobs, models, with_mutants)
    print_table(models, worlds, mutants)
    if mutants:
        print_mutants(models, mutants)
    if arguments.json:
        write_json(arguments.json, models, worlds, mutants)
    wrong = list(complaints(models, worlds, mutants))
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    print(f"\n{len(worlds)} worlds, {len(mutants)} mutants, {time.monotonic() - start:.0f} s: "
          f"{'FAILED' if wrong else 'all as they should be'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
