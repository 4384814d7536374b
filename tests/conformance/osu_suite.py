#!/usr/bin/env python3
"""OSU micro-benchmarks over Penstock: checks that each completes and passes its own validation.

Builds nothing: --osu-bin names a tree that contains the built programs. Exit status: 0 if all
passed, 1 otherwise.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile

import job
import launchers

TWO_RANKS = ["osu_latency", "osu_bw", "osu_bibw"]
ONE_SIDED = ["osu_put_latency", "osu_get_latency", "osu_put_bw", "osu_get_bw", "osu_put_bibw",
             "osu_acc_latency", "osu_get_acc_latency", "osu_fop_latency", "osu_cas_latency"]
PAIRS = ["osu_multi_lat", "osu_mbw_mr"]  # need an even number of ranks
COLLECTIVES = ["osu_allgather", "osu_allgatherv", "osu_allreduce", "osu_alltoall", "osu_alltoallv",
               "osu_alltoallw", "osu_barrier", "osu_bcast", "osu_gather", "osu_gatherv", "osu_reduce",
               "osu_reduce_scatter", "osu_reduce_scatter_block", "osu_scatter", "osu_scatterv"]
NONBLOCKING = [name.replace("osu_", "osu_i") for name in COLLECTIVES]
PERSISTENT = [name + "_persistent" for name in COLLECTIVES if name != "osu_reduce_scatter_block"]  # 7.4 lacks it
# One-sided programs cannot validate, or only for one size.
NOTHING_TO_VALIDATE = {"osu_barrier", "osu_ibarrier", "osu_barrier_persistent", *ONE_SIDED}

# MPI cannot sum their default type, MPI_CHAR, and Open MPI's result then fails validation over any
# transport.
REDUCTIONS = {name for name in COLLECTIVES + NONBLOCKING + PERSISTENT if "reduce" in name}


def find_programs(tree):
    """Maps the names of the executable programs below `tree` to their paths."""
    found = {}
    for directory, subdirectories, names in os.walk(tree):
        subdirectories[:] = [name for name in subdirectories if name != ".libs"]
        for name in names:
            path = os.path.join(directory, name)
            if re.fullmatch(r"osu_\w+", name) and os.access(path, os.X_OK):
                found.setdefault(name, path)
    return found


def programs_for(ranks, kind):
    return {"messages": (TWO_RANKS if ranks == 2 else []) + (PAIRS if ranks % 2 == 0 else []),
            "one-sided": ONE_SIDED if ranks == 2 else [], "collectives": COLLECTIVES,
            "nonblocking": NONBLOCKING, "persistent": PERSISTENT}[kind]


def arguments_for(program, options):
    arguments = ["-i", str(options.iterations), "-x", str(options.warm_up)]
    if program in ONE_SIDED:
        # Windows over the ranks' own memory: MPI may share the windows that it allocates within a host.
        return arguments + ["-m", f":{options.max_bytes}", "-w", "create"]
    if program in REDUCTIONS:
        arguments += ["-T", "mpi_float"]
    if program not in NOTHING_TO_VALIDATE:
        arguments += ["-c", "-m", f":{options.max_bytes}"]
    return arguments


def judge(program, outcome):
    """"" if the program completed and its validation passed, else the error."""
    if outcome.ended:
        return outcome.ended
    if outcome.status != 0:
        last = (outcome.output.strip().splitlines() or ["no output"])[-1]
        return f"ended with status {outcome.status}: {last}"
    rows = [line.split() for line in outcome.output.splitlines()
            if re.match(r"\s*\d", line)]
    if not rows:
        return "printed no result"
    if program in NOTHING_TO_VALIDATE:
        return ""
    failed = [row[0] for row in rows if row[-1] == "Fail"]
    if failed:
        return f"validation failed at {', '.join(failed)} bytes"
    unknown = [row[0] for row in rows if row[-1] != "Pass"]
    return f"not validated at {', '.join(unknown)} bytes" if unknown else ""


def run_program(name, path, options, ranks, mode, logs):
    environment, launcher = (launchers.own_shared_memory(options, ranks) if mode == "own-shm"
                             else launchers.penstock(options, ranks, mode))
    outcome = job.run(launcher + [path] + arguments_for(name, options),
                      job.clean_environment(environment),
                      os.path.join(logs, f"{name}-{mode}-{ranks}.log"), options.deadline)
    wrong = judge(name, outcome)
    print(f"  {'FAIL' if wrong else 'pass'} {name:<26} {outcome.seconds:6.1f} s  {wrong}", flush=True)
    return not wrong


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    launchers.add_options(parser)
    parser.add_argument("--osu-bin", required=True, help="tree of the built programs")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--mode", nargs="+", default=["software"],
                        choices=["software", "hardware", "simulated", "own-shm"])
    parser.add_argument("--kinds", nargs="+", default=["messages", "one-sided", "collectives"],
                        choices=["messages", "one-sided", "collectives", "nonblocking", "persistent"],
                        help="(%(default)s; persistent needs an MPI 4)")
    parser.add_argument("--only", metavar="REGEX", default="", help="programs to run (default: all)")
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--warm-up", type=int, default=10)
    parser.add_argument("--max-bytes", type=int, default=1 << 20)
    parser.add_argument("--deadline", type=float, default=300, metavar="S", help="of one program")
    parser.add_argument("--logs", help="directory for logs (default: a temporary one, kept when "
                        "something fails)")
    options = parser.parse_args(arguments)
    launchers.complete(options, parser)
    return options


def main(arguments=None):
    options = options_of(arguments)
    job.end_on_signals()
    found = find_programs(options.osu_bin)
    logs = options.logs or tempfile.mkdtemp(prefix="penstock-osu-")
    os.makedirs(logs, exist_ok=True)
    good, passed, total = True, 0, 0
    for ranks in options.ranks:
        for mode in options.mode:
            print(f"{ranks} ranks, {mode}:", flush=True)
            for name in (name for kind in options.kinds for name in programs_for(ranks, kind)):
                if not re.search(options.only, name):
                    continue
                total += 1
                if name not in found:
                    print(f"  FAIL {name:<26} not found below {options.osu_bin}")
                    good = False
                elif run_program(name, found[name], options, ranks, mode, logs):
                    passed += 1
                else:
                    good = False
    print(f"{passed} of {total} passed")
    if good and not options.logs:
        shutil.rmtree(logs)
    elif not good:
        print(f"logs: {logs}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
