#!/usr/bin/env python3
"""torch's own distributed tests with the back end penstock in gloo's place, and gloo as the yardstick.

Runs distributed_test of torch.testing, which every wheel has, and files of torch's test/distributed if --torch-tests
names that folder. Tests that fail over penstock run over gloo too. Exit status: 0 if no test fails over penstock only,
except those in DIFFERENT; 1 otherwise; 77 if torch or its tests' dependencies are not available.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

import job
import launchers

HERE = os.path.dirname(os.path.abspath(__file__))
UNAVAILABLE = 77
RESTARTS = 5  # after tests that hang or crash, which are then skipped
EXPECTTEST = "expecttest==0.3.0"  # torch's tests import it
# (run, backend that the tests see, cases, minimum of ranks): from the wheel. Only the tests for MPI have all-to-all on the
# CPU; tests of smaller groups need 8 ranks.
WHEEL = [("distributed_test", "gloo", "", 0), ("distributed_test, all-to-all", "mpi", "all_to_all", 0),
         ("distributed_test, groups", "gloo", "_group(_|$)", 8)]
# Files of test/distributed that use no GPU.
FILES = ["test_c10d_gloo.py", "test_c10d_object_collectives.py", "test_functional_api.py", "test_c10d_functional_native.py",
         "_tensor/test_device_mesh.py", "_tensor/test_dtensor.py", "_tensor/test_redistribute.py", "_tensor/test_api.py",
         "_tensor/test_matrix_ops.py", "_tensor/test_tensor_ops.py", "tensor/test_dtensor.py", "tensor/test_redistribute.py",
         "tensor/test_api.py", "test_device_mesh.py", "algorithms/test_join.py",
         "optim/test_zero_redundancy_optimizer.py", "checkpoint/test_checkpoint.py", "checkpoint/test_file_system_checkpoint_cpu.py",
         "_composable/test_replicate.py", "_composable/fsdp/test_fully_shard_training.py",
         "_composable/fsdp/test_fully_shard_comm.py", "_composable/fsdp/test_fully_shard_clip_grad_norm_.py",
         "_composable/fsdp/test_fully_shard_mixed_precision.py", "_composable/fsdp/test_fully_shard_state_dict.py"]
# (test, why any back end but gloo fails it)
DIFFERENT = [
    (r".*\.test_monitored_barrier\w*", "torch has monitored_barrier for gloo only"),
    (r".*\.test_barrier_timeout_(full_group|global|group)", "asks for gloo's words: ours name the rank that is missing"),
    (r".*\.test_(isend|send_recv_with_tag)_(autograd|torch)_profiler", "asks for the name gloo in the profiler's events"),
    (r".*\.test_ddp_logging_data_cpu", "asks for the name gloo; torch calls every other back end custom"),
    (r".*\.test_(ddp_comm_hook_)?sparse_(all_reduce_sum|gradients|allreduce)\w*", "sparse tensors are refused, in words"),
    (r"test_c10d_gloo\.ProcessGroupGlooTest\.test_\w+_checks", "asks for gloo's words"),
    (r"test_c10d_gloo\.ProcessGroupGlooTest\.test_(allgather|allreduce|broadcast)_(basics\w*|noncontiguous_input)",
     "gives one call several tensors, of several devices, which torch.distributed itself no longer does"),
]


def why_different(test):
    return next((why for pattern, why in DIFFERENT if re.fullmatch(pattern, test)), None)


class Run:
    """The cases of a file over one back end. Restarts without cases that hang or crash."""

    def __init__(self, name, file, told, backend, ranks, options, logs):
        self.name, self.file, self.told, self.backend, self.ranks = name, file, told, backend, ranks
        self.options, self.logs = options, logs
        self.outcomes, self.texts, self.trouble = {}, {}, []

    def go(self, cases="", only=()):
        left_out = []
        for attempt in range(RESTARTS + 1):
            notes = os.path.join(self.logs, f"{re.sub(r'[^a-z0-9_]+', '-', self.name)}-{self.backend}-{attempt}.jsonl")
            command = [self.options.python, os.path.join(HERE, "torch_cases.py"), notes, self.backend, self.file,
                       "--cases", cases, "--only", *only, "--leave", *left_out]
            outcome = job.run(command, self.environment(), notes + ".log", self.options.deadline)
            running, ended = self.take(notes)
            if ended:
                return self
            if running is None:
                last = (outcome.output.strip().splitlines() or ["?"])[-1][:200]
                self.trouble.append(f"ended with status {outcome.status}, outside of any test: {last} ({notes}.log)")
                return self
            self.outcomes[running] = "hang" if outcome.ended else "crash"
            left_out = list(self.outcomes)
        self.trouble.append(f"given up after {RESTARTS} restarts")
        return self

    def environment(self):
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PENSTOCK_", "TORCH"))}
        environment.update(PYTHONPATH=f"{self.options.site}:{os.path.join(self.options.build, 'python')}",
                           OMP_NUM_THREADS="1", BACKEND=self.told, WORLD_SIZE=str(self.ranks))
        if self.options.nodes:
            environment["PENSTOCK_NODES"] = str(self.options.nodes)
        return environment

    def take(self, path):
        """Reads the notes: the test that was running at the end, and whether all tests ended."""
        running, ended = None, False
        if not os.path.exists(path):
            return running, ended
        with open(path, encoding="utf-8") as file:
            for note in map(json.loads, file):
                if note["event"] == "end":
                    ended = True
                elif note["event"] == "start":
                    running = note["test"]
                else:
                    self.outcomes[note["test"]], self.texts[note["test"]] = note["event"], note["text"]
                    running = None
        return running, ended

    def failing(self):
        return sorted(test for test, outcome in self.outcomes.items() if outcome not in ("passed", "skipped"))

    def report(self):
        counts = collections.Counter(self.outcomes.values())
        text = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
        print(f"{self.name}, {self.ranks} ranks over {self.backend}: {len(self.outcomes)} tests: {text or 'none'}", flush=True)
        reasons = collections.Counter(self.texts[test].split("\n")[0][:100] for test, outcome in self.outcomes.items()
                                      if outcome == "skipped")
        for reason, count in reasons.most_common():
            print(f"  skipped by torch: {count:4} {reason}")
        for trouble in self.trouble:
            print(f"  {trouble}")


def reason_of(text):
    lines = [line.strip() for line in text.splitlines() if re.match(r"[\w.]*(Error|Exception)\b", line.strip())]
    return (lines or text.strip().splitlines() or ["?"])[-1][:200]


def measure(name, file, told, cases, ranks, options, logs):
    """Prints the tests that fail over penstock only; True if there are none."""
    ours = Run(name, file, told, "penstock", ranks, options, logs).go(cases)
    ours.report()
    failing = [test for test in ours.failing() if not why_different(test)]
    for test in sorted(set(ours.failing()) - set(failing)):
        print(f"  differs from gloo: {test}: {why_different(test)}")
    theirs = Run(name, file, told, "gloo", ranks, options, logs)
    if failing:
        theirs.go(cases, failing)
    both = [test for test in failing if theirs.outcomes.get(test) not in ("passed", "skipped")]
    only = [test for test in failing if test not in both]
    if both:
        print(f"  fails over gloo too: {len(both)}: {', '.join(both)}")
    print(f"  fails over penstock only: {len(only)}")
    for test in only:
        print(f"    {test} [{ours.outcomes[test]}] {reason_of(ours.texts.get(test, ''))}", flush=True)
    return not only and not ours.trouble and bool(ours.outcomes)


def obtain_site(python):
    """A folder with the packages that only torch's tests need, fetched once; None if they are not available."""
    site = os.path.join(launchers.ROOT, ".cache", "conformance", "torch-site")
    if not os.path.isdir(os.path.join(site, "expecttest")):
        done = subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--target", site, EXPECTTEST],
                              capture_output=True, text=True, timeout=300)
        if done.returncode != 0:
            return None
    return site


def options_of(arguments):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", default=os.path.join(launchers.ROOT, ".venv-torch/bin/python"))
    parser.add_argument("--build", default=os.path.join(launchers.ROOT, "build"))
    parser.add_argument("--torch-tests", metavar="DIR", help="test/distributed of torch's sources at its version")
    parser.add_argument("--files", nargs="+", default=FILES, help="below that folder (default: those that use no GPU)")
    parser.add_argument("--no-wheel", action="store_true", help="without distributed_test of the wheel")
    parser.add_argument("--cases", default="", metavar="REGEX")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--nodes", type=int, help="let the ranks play as many hosts")
    parser.add_argument("--deadline", type=float, default=1800, metavar="S", help="of one run")
    parser.add_argument("--logs", help="directory for logs (default: a temporary one)")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = options_of(arguments)
    job.end_on_signals()
    if not os.access(options.python, os.X_OK):
        print(f"SKIP: {options.python} is absent: ci/install.sh torch")
        return UNAVAILABLE
    options.site = obtain_site(options.python)
    if options.site is None:
        print(f"SKIP: {EXPECTTEST}, which torch's tests import, cannot be had")
        return UNAVAILABLE
    logs = options.logs or tempfile.mkdtemp(prefix="penstock-torch-")
    os.makedirs(logs, exist_ok=True)
    good = True
    for name, told, cases, least in [] if options.no_wheel else WHEEL:
        ranks = max(options.ranks, least)
        good = measure(name, "wheel", told, options.cases or cases, ranks, options, logs) and good
    for name in options.files if options.torch_tests else []:
        path = os.path.join(os.path.abspath(options.torch_tests), name)
        if os.path.exists(path):
            good = measure(name, path, "gloo", options.cases, options.ranks, options, logs) and good
        else:
            print(f"{name}: absent in {options.torch_tests}")
    print(f"logs: {logs}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
