#!/usr/bin/env python3
"""mpi4py's own test suite over Penstock, with the MPI's own shared memory as the yardstick.

Tests that fail over Penstock also run over the yardstick (with --whole-yardstick: all tests do).
Exit status: 0 if no test fails over Penstock only, 1 otherwise, 77 if the suite is not available.
"""

import argparse
import collections
import glob
import json
import os
import re
import shutil
import sys
import tempfile
import time

import job
import launchers
import mpi4py_source

HERE = os.path.dirname(os.path.abspath(__file__))
EXCLUDED = ["spawn", "dynproc"]  # tests that create processes at run time
RESTARTS = 5  # after tests that hang or crash, which are then skipped
UNAVAILABLE = 77
# (MPI, test, why it fails over every libfabric provider); the MPI's shared memory uses no provider
OF_THE_MPI = [
    ("openmpi", r"test_ulfm\.\w+\.testRevoke",
     "pml/cm cannot revoke; the same over libfabric's tcp"),
    ("mpich", r"test_util_sync\.Test(Mutex|Condition)\w*World\.\w+",
     "MPICH 5.0.2 does not order a rank's accumulates to itself and those of others; the same over libfabric's tcp"),
]


class Run:
    """One run of the suite over one transport. Restarts without tests that hang or crash."""

    def __init__(self, name, main_py, options, ranks, launcher, log_dir, tests=()):
        self.tests = list(tests)  # names; empty: all tests that the options include
        self.name, self.main_py, self.options, self.ranks = name, main_py, options, ranks
        self.environment, self.launcher = launcher
        self.log_dir = log_dir
        self.outcomes = {}  # test -> "passed", "failed", "skipped", "hang", "crash"
        self.texts = {}
        self.seconds = 0.0
        self.trouble = []  # problems that belong to no test

    def go(self):
        left_out = []
        for attempt in range(RESTARTS + 1):
            notes_dir = os.path.join(self.log_dir, f"{self.name}-{attempt}")
            shutil.rmtree(notes_dir, ignore_errors=True)
            os.makedirs(notes_dir)
            outcome = self.attempt(notes_dir, left_out)
            self.seconds += outcome.seconds
            culprits = self.take_notes(notes_dir, outcome)
            left_out += culprits
            if not culprits or (self.tests and set(self.tests) <= set(left_out)):
                return self
        self.trouble.append(f"given up after {RESTARTS} restarts")
        return self

    def attempt(self, notes_dir, left_out):
        arguments = ["--no-builddir", "-v"]
        for pattern in EXCLUDED + self.options.exclude:
            arguments += ["-e", pattern]
        for pattern in self.options.include:
            arguments += ["-i", pattern]
        for test in left_out:
            arguments += ["-x", test]
        arguments += [test for test in self.tests if test not in left_out]
        command = self.launcher + [self.options.python, os.path.join(HERE, "mpi4py_rank.py"),
                                   notes_dir, self.main_py] + arguments
        return job.run(command, job.clean_environment(self.environment), notes_dir + ".log",
                       self.options.deadline, stalled=lambda: self.stalled(notes_dir))

    def stalled(self, notes_dir):
        files = glob.glob(os.path.join(notes_dir, "*.jsonl"))
        if not files:
            return ""
        quiet = time.time() - max(os.path.getmtime(file) for file in files)
        return f"no test began or ended for {quiet:.0f} s" if quiet > self.options.stall else ""

    def take_notes(self, notes_dir, outcome):
        """Merges the ranks' notes; returns the tests that ended the run."""
        culprits, ended, files = set(), 0, sorted(glob.glob(os.path.join(notes_dir, "*.jsonl")))
        for file in files:
            running = None
            for line in open(file):
                note = json.loads(line)
                if note["event"] == "end":
                    ended += 1
                elif note["event"] == "start":
                    running = note["test"]
                    self.outcomes.setdefault(running, "passed")
                else:
                    self.merge(note)
                    running = None
            if running:
                culprits.add(running)
        if ended == self.ranks and not outcome.ended:
            return []
        why = outcome.ended or f"ended early with status {outcome.status}"
        for test in culprits:
            self.outcomes[test] = "hang" if outcome.ended else "crash"
            self.texts[test] = why
        if not culprits:
            self.trouble.append(f"{why}, outside of any test; see {notes_dir}.log")
        return sorted(culprits)

    def merge(self, note):
        test, event = note["test"], note["event"]
        rank_of = {"passed": 0, "skipped": 1, "failed": 2, "crash": 3, "hang": 4}
        if rank_of[event] >= rank_of[self.outcomes.get(test, "passed")]:
            self.outcomes[test] = event
        if event == "failed":
            self.texts.setdefault(test, note["text"])

    def failing(self):
        return {test for test, outcome in self.outcomes.items()
                if outcome in ("failed", "hang", "crash")}

    def summary(self):
        counts = collections.Counter(self.outcomes.values())
        text = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        return f"{self.name}: {len(self.outcomes)} tests in {self.seconds:.0f} s: {text or 'none'}"


def report(run):
    print(run.summary(), flush=True)
    for trouble in run.trouble:
        print(f"  {trouble}")


def reason_of(text):
    """The line of a traceback that names the error."""
    lines = text.strip().splitlines() or ["?"]
    return next((line for line in reversed(lines) if re.match(r"[\w.]+(Error|Exception)\b", line)),
                lines[-1])


def why_of_the_mpi(mpi, test):
    return next((why for which, pattern, why in OF_THE_MPI
                 if which == mpi and re.fullmatch(pattern, test)), None)


def compare(ours, yardstick, mpi):
    """Prints the tests that fail over Penstock only; True if there are none."""
    more = sorted(ours.failing() - yardstick.failing())
    for test in more:
        if why := why_of_the_mpi(mpi, test):
            print(f"fails over every provider: {test}: {why}")
    only = [test for test in more if not why_of_the_mpi(mpi, test)]
    print(f"fails only over Penstock ({ours.name}): {len(only)}")
    for test in only:
        print(f"  {test} [{ours.outcomes[test]}] {reason_of(ours.texts.get(test, ''))}")
    return not only and not ours.trouble and bool(ours.outcomes)


def measure(main_py, options, ranks, mode, logs):
    def over_yardstick(tests):
        run = Run(f"own-shm-{ranks}", main_py, options, ranks,
                  launchers.own_shared_memory(options, ranks), logs, tests)
        if tests or options.whole_yardstick:
            report(run.go())
        return run

    ours = Run(f"penstock-{mode}-{ranks}", main_py, options, ranks,
               launchers.penstock(options, ranks, mode), logs).go()
    report(ours)
    whole = options.whole_yardstick
    return compare(ours, over_yardstick([] if whole else sorted(ours.failing())), options.mpi)


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    launchers.add_options(parser)
    parser.add_argument("--source", help=f"mpi4py's source tree at {mpi4py_source.VERSION} "
                        "(default: its source distribution, fetched into .cache/)")
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4])
    parser.add_argument("--mode", nargs="+", default=["software"],
                        choices=["software", "hardware", "simulated"])
    parser.add_argument("--include", "-i", action="append", default=[], metavar="REGEX",
                        help="test modules to run (default: all)")
    parser.add_argument("--exclude", "-e", action="append", default=[], metavar="REGEX",
                        help="test modules to leave out, besides spawn and dynproc")
    parser.add_argument("--whole-yardstick", action="store_true",
                        help="run everything over the MPI's own shared memory too, which takes long "
                        "with more ranks than cores: it does not yield")
    parser.add_argument("--deadline", type=float, default=1200, metavar="S", help="of one run")
    parser.add_argument("--stall", type=float, default=180, metavar="S",
                        help="a run in which no test begins or ends for so long hangs")
    parser.add_argument("--logs", help="directory for logs (default: a temporary one, kept when "
                        "something fails)")
    options = parser.parse_args(arguments)
    launchers.complete(options, parser)
    return options


def main(arguments=None):
    options = options_of(arguments)
    job.end_on_signals()
    try:
        main_py = mpi4py_source.obtain(options.source)
    except mpi4py_source.Unavailable as error:
        print(f"SKIP: {error}")
        return UNAVAILABLE
    logs = options.logs or tempfile.mkdtemp(prefix="penstock-mpi4py-")
    good = True
    for ranks in options.ranks:
        for mode in options.mode:
            good = measure(main_py, options, ranks, mode, logs) and good
    if good and not options.logs:
        shutil.rmtree(logs)
    elif not good:
        print(f"logs: {logs}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
