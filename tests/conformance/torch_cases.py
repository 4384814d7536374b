"""Runs cases of torch's distributed tests in one interpreter; torch_suite.py starts this.

torch_cases.py NOTES BACKEND FILE|wheel [--cases REGEX] [--only TEST ...] [--leave TEST ...]

A test that asks for gloo or MPI gets BACKEND: penstock, or gloo as a yardstick. Ranks are forked, not spawned, so that
they need not import torch. NOTES gets a line of JSON when a test begins and when it ends.
"""

import argparse
import functools
import importlib.util
import json
import os
import re
import sys
import tempfile
import unittest

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed import distributed_c10d


def in_place(wanted):
    """Makes init_process_group and the like use `wanted` if a test asks for gloo or MPI."""
    def ours(backend):
        return re.sub("gloo|mpi", wanted, backend) if isinstance(backend, str) else backend

    def instead(function, position):
        @functools.wraps(function)
        def wrapper(*arguments, **named):
            arguments = list(arguments)
            if len(arguments) > position:
                arguments[position] = ours(arguments[position])
            elif "backend" in named:
                named["backend"] = ours(named["backend"])
            return function(*arguments, **named)
        return wrapper

    for name, position in (("init_process_group", 0), ("new_group", 2), ("new_subgroups", 3),
                           ("new_subgroups_by_enumeration", 2), ("is_backend_available", 0)):
        wrapped = instead(getattr(distributed_c10d, name), position)
        setattr(distributed_c10d, name, wrapped)
        setattr(dist, name, wrapped)
    told = distributed_c10d.get_backend

    def get_backend(*arguments, **named):
        return re.sub("penstock", "gloo", told(*arguments, **named))

    dist.get_backend = get_backend


def in_place_of_the_class():
    """The same for groups that a test makes without init_process_group."""
    import penstock.torch
    real = dist.ProcessGroupGloo

    class ProcessGroupGloo:
        _Options, create_device, create_default_device = real._Options, real.create_device, real.create_default_device

        def __new__(cls, store, rank, size, options=None, timeout=distributed_c10d.default_pg_timeout):
            timeout = options._timeout if options is not None else timeout
            return penstock.torch.backend_module().make(store, rank, size, timeout, "0", True)

    dist.ProcessGroupGloo = ProcessGroupGloo
    penstock.torch.backend_module().Backend.create_device = staticmethod(real.create_device)


def with_our_titles(of):
    """Adapts expected profiler events, whose names contain the back end's name."""
    told = of.get_profiling_event

    def get_profiling_event(name, *arguments, **named):
        return told(re.sub("^gloo:", "penstock:", name), *arguments, **named)

    of.get_profiling_event = get_profiling_event


def forked():
    from torch.testing._internal import common_distributed

    def fork(self):
        sys.stdout.flush()
        sys.stderr.flush()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    common_distributed.MultiProcessTestCase._spawn_processes = fork
    common_distributed.TIMEOUT_DEFAULT = 90
    common_distributed.TIMEOUT_OVERRIDE.clear()


def from_the_wheel():
    """distributed_test of torch.testing, which is in every wheel, as torch's test_distributed_spawn.py uses it."""
    folder = tempfile.mkdtemp(prefix="penstock-torch-suite-")
    os.environ.update(TEMP_DIR=folder, INIT_METHOD=f"file://{folder}/met", MASTER_ADDR="127.0.0.1")
    from torch.testing._internal.distributed import distributed_test as of

    if hasattr(dist.Backend, "PENSTOCK"):
        with_our_titles(of)

    class Wheel(of.TestDistBackend, of.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._spawn_processes()

    Wheel.__qualname__ = "distributed_test"
    globals()["Wheel"] = Wheel
    return sys.modules[__name__]


def from_file(path):
    sys.path.insert(0, os.path.dirname(path))
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def cases(suite):
    for part in suite:
        if isinstance(part, unittest.TestSuite):
            yield from cases(part)
        else:
            yield part


class Notes(unittest.TestResult):
    def __init__(self, path):
        super().__init__()
        self.file = open(path, "a", encoding="utf-8")

    def note(self, event, test, text=""):
        self.file.write(json.dumps({"event": event, "test": short(test.id()), "text": text}) + "\n")
        self.file.flush()

    def startTest(self, test):
        super().startTest(test)
        self.note("start", test)

    def addSuccess(self, test):
        self.note("passed", test)

    def addSkip(self, test, reason):
        self.note("skipped", test, reason)

    def addExpectedFailure(self, test, err):
        self.note("passed", test)

    def addFailure(self, test, err):
        self.note("failed", test, self._exc_info_to_string(err, test))

    addError = addFailure


def short(name):
    return name.replace("__main__.", "")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("notes")
    parser.add_argument("backend")
    parser.add_argument("file")
    parser.add_argument("--cases", default="")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--leave", nargs="*", default=[])
    options = parser.parse_args()
    sys.argv = sys.argv[:1]
    torch.set_num_threads(1)
    if options.backend == "penstock":
        in_place_of_the_class()
    in_place(options.backend)
    forked()
    module = from_the_wheel() if options.file == "wheel" else from_file(options.file)
    chosen = [case for case in cases(unittest.defaultTestLoader.loadTestsFromModule(module))
              if re.search(options.cases, short(case.id())) and short(case.id()) not in options.leave
              and (not options.only or short(case.id()) in options.only)]
    result = Notes(options.notes)
    for case in chosen:
        unittest.TestSuite([case]).run(result)
    with open(options.notes, "a", encoding="utf-8") as file:
        file.write(json.dumps({"event": "end", "test": "", "text": str(len(chosen))}) + "\n")


if __name__ == "__main__":
    main()
