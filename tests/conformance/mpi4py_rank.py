"""One rank of mpi4py's test suite: runs its main.py and notes each test in a file of this rank.

usage: mpi4py_rank.py NOTES_DIR MAIN_PY [arguments of main.py]
"""

import json
import os
import runpy
import sys
import traceback
import unittest


class Notes:
    def __init__(self, directory):
        rank = next((os.environ[name] for name in ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK")
                     if name in os.environ), "0")
        self.file = open(os.path.join(directory, f"rank{rank}.jsonl"), "a", buffering=1)

    def write(self, event, test, text=""):
        name = test.id() if hasattr(test, "id") else str(test)
        self.file.write(json.dumps({"event": event, "test": name, "text": text}) + "\n")


def note_results(notes):
    """Makes unittest's text result also write each outcome to the notes."""
    result = unittest.TextTestResult

    def wrap(method, event):
        before = getattr(result, method)

        def after(self, test, *rest):
            text = ""
            if rest and isinstance(rest[0], tuple):
                text = "".join(traceback.format_exception(*rest[0]))[-2000:]
            notes.write(event, test, text)
            return before(self, test, *rest)

        setattr(result, method, after)

    for method, event in (("startTest", "start"), ("addSuccess", "passed"),
                          ("addFailure", "failed"), ("addError", "failed"),
                          ("addSkip", "skipped"), ("addExpectedFailure", "passed"),
                          ("addUnexpectedSuccess", "failed")):
        wrap(method, event)
    before_subtest = result.addSubTest

    def after_subtest(self, test, subtest, error):
        if error is not None:
            notes.write("failed", test, "".join(traceback.format_exception(*error))[-2000:])
        return before_subtest(self, test, subtest, error)

    result.addSubTest = after_subtest


def main():
    notes_directory, main_py = sys.argv[1:3]
    notes = Notes(notes_directory)
    note_results(notes)
    sys.argv = [main_py] + sys.argv[3:]
    sys.path.insert(0, os.path.dirname(main_py))
    sys.dont_write_bytecode = True
    try:
        runpy.run_path(main_py, run_name="__main__")
    finally:
        notes.write("end", "")


main()
