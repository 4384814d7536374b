#!/usr/bin/env python3
"""Fails when tests have left files or processes. ci/test.sh runs it after them.

    leftovers.py FOLDER SINCE

FOLDER was the TMPDIR of the tests, and of nothing else; so what lies in it is theirs. SINCE is when they began, in seconds
since 1970. FOLDER/tests says when each end-to-end test began and ended (support.Case writes it), so that it can be named.
"""

import os
import sys
import time
from pathlib import Path

from remains import SHM, TOPOLOGY, remains, unheld

RECORD = "tests"
WAIT_S = 20  # what cleans up after a job ends a little later
SHARED = ((SHM, ("penstock.", "penstock-")), (Path("/tmp"), ("penstock-e2e-", "penstock-tmp-")))


def note(test, word):
    """Notes that an end-to-end test begins or ends."""
    if path := os.environ.get("E2E_RECORD"):
        with open(path, "a") as record:
            record.write(f"{time.time():.3f} {word} {test.id()} {test.temporary.name} {test.folder.name}\n")


class Tests:
    """When each end-to-end test ran, and its folders."""

    def __init__(self, record):
        self._spans, self._of_folder = {}, {}
        for line in record.read_text().splitlines() if record.exists() else []:
            moment, word, name, *folders = line.split()
            if word == "begins":
                self._spans[name] = [float(moment), float("inf")]
                self._of_folder.update(dict.fromkeys(folders, name))
            else:
                self._spans[name][1] = float(moment)

    def of_folder(self, name):
        return f"of {self._of_folder[name]}" if name in self._of_folder else "of no end-to-end test"

    def at(self, moment):
        # The times of files are those of the clock's last tick.
        ran = [name for name, (begin, end) in self._spans.items() if begin - 0.1 <= moment <= end]
        return f"made when {' and '.join(ran)} ran" if ran else "made when no end-to-end test ran"


def _processes():
    """Process id, command and environment of each living process but this one."""
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            variables = (folder / "environ").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if int(folder.name) != os.getpid() and command:  # a zombie has none
            yield folder.name, command, dict(each.split("=", 1) for each in variables if "=" in each)


def of_folder(folder, tests):
    """What lies in the folder, and the processes that have it or one in it as their TMPDIR."""
    for path in sorted(folder.iterdir()):
        if path.name != RECORD:
            yield f"{path}, {tests.of_folder(path.name)}"
    for process, command, variables in _processes():
        place = variables.get("TMPDIR", "")
        if f"{place}/".startswith(f"{folder}/"):
            yield f"process {process} ({command[:100]}), {tests.of_folder(place[len(str(folder)) + 1:].split('/')[0])}"


def of_shared_folders(since, tests):
    """What has names as tests and MPIs give them, in folders that all jobs share. Hydra's topologies are removed: nobody knows
    whose they are while an older proxy lives, so a test may have had to leave those of its killed jobs."""
    found = remains(since)
    for path in [path for path in found if path.name.startswith(TOPOLOGY)]:
        path.unlink(missing_ok=True)
        del found[path]
    for place, names in SHARED:
        found |= unheld(place, names, since)
    return [f"{path}, {tests.at(made)}" for path, made in sorted(found.items())]


def others_run(folder):
    """Whether tests of another run go on, which make the same names."""
    return any("E2E_PENSTOCK" in variables and not variables.get("TMPDIR", "").startswith(str(folder))
               for _, _, variables in _processes())


def main(folder, since):
    end = time.monotonic() + WAIT_S
    while True:
        tests = Tests(folder / RECORD)
        alone = not others_run(folder)
        found = [*of_folder(folder, tests), *(of_shared_folders(since, tests) if alone else [])]
        if not found or time.monotonic() > end:
            break
        time.sleep(1)
    for each in found:
        print(f"error: tests have left {each}")
    if not alone:
        print("tests of another run go on: not looked at what tests have left in /dev/shm and /tmp")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), float(sys.argv[2])))
