#!/usr/bin/env python3
"""Runs programs of others over a pool and without Penstock, compares what they compute, and writes the rows of docs/works-with.md.

    run.py [NAME ...]        # all, or some; --no-table leaves the page as it is
    run.py --today           # two of the quick ones, which change every day, with three ranks; the page stays as it is

Each program of programs/ states its packages, a small case, and what to compare. It runs on two emulated nodes with 2, 3 and 4 ranks in
software mode, and with the middle number in the other modes. Status 1: one failed that runs without Penstock.
"""
import argparse
import datetime
import importlib
import math
import os
import re
import shutil
import sys
import tempfile
import time
from pathlib import Path

from launchers import SOURCE, CannotBeHad, Failed, Run, remove_remains

HERE = Path(__file__).resolve().parent
PAGE = SOURCE / "docs/works-with.md"
ROW = re.compile(r"^\| \[[^\]]*\]\(\.\./tests/works-with/programs/(\w+)\.py\) \|.*$", re.M)
HEAD = ("| program | version | MPI or torch | what ran | modes | through the pool | what to know |\n"
        "|---|---|---|---|---|---|---|\n")


def names():
    return sorted(path.stem for path in (HERE / "programs").glob("*.py"))


def program_of(name):
    return importlib.import_module(f"programs.{name}").Program()


def difference(wanted, found, where):
    """The largest relative difference of numbers. Texts must be the same."""
    if isinstance(wanted, dict):
        if not isinstance(found, dict) or wanted.keys() != found.keys():
            raise Failed(f"{where}: {found} in place of {wanted}")
        return max((difference(wanted[name], found[name], f"{where} {name}".strip()) for name in wanted), default=0.0)
    if isinstance(wanted, (list, tuple)):
        if len(wanted) != len(found):
            raise Failed(f"{where}: {len(found)} values in place of {len(wanted)}")
        return max((difference(one, other, where) for one, other in zip(wanted, found)), default=0.0)
    if isinstance(wanted, float) and isinstance(found, float):
        if wanted == found or math.isnan(wanted) and math.isnan(found):
            return 0.0
        return abs(wanted - found) / max(abs(wanted), abs(found))
    if wanted != found:
        raise Failed(f"{where}: '{found}' in place of '{wanted}'")
    return 0.0


class Trial:
    """All runs of one program."""

    def __init__(self, name, program, launcher, folder):
        self.name, self.program, self.launcher, self.folder = name, program, launcher, folder
        self.python = launcher.install(name, program)
        self.largest = 0.0
        self.traffic = ""
        self.plain = {}

    def run(self, ranks, mode=None):
        place = Path(tempfile.mkdtemp(prefix=f"{self.name}-{ranks}-{mode or 'plain'}-", dir=self.folder))
        run = Run(place, ranks, self.python)
        if mode is None:
            try:
                self.launcher.plain(self.program, run)
            except Failed as error:
                raise CannotBeHad(f"{ranks} ranks fail without Penstock too: {error.args[0]}", *error.args[1:]) from error
        else:
            self.note_traffic(self.launcher.over_the_pool(self.program, run, mode), ranks)
        result = self.program.result(run)
        if not result:
            raise Failed(f"nothing to compare in what it printed: {run.output[-300:]}")
        shutil.rmtree(place, ignore_errors=True)
        return result

    def note_traffic(self, facts, ranks):
        if facts is None:
            return
        if facts["transport"] != "penstock":
            raise Failed("no rank used the pool")
        calls = {each["what"]: each["calls"] for each in facts["calls"]}
        parts = [(facts["messages"], "messages"), *((count, what) for what, count in calls.items())]
        if not any(count for count, _ in parts):
            raise Failed("nothing went through the pool")
        if ranks == self.program.ranks[-1] or not self.traffic:
            self.traffic = f"{', '.join(f'{count:,} {what}' for count, what in parts if count)} ({ranks} ranks)"

    def compare(self, ranks, mode):
        if ranks not in self.plain:
            self.plain[ranks] = self.run(ranks)
        found = difference(self.plain[ranks], self.run(ranks, mode), f"{ranks} ranks, {mode} mode")
        if found > self.program.tolerance:
            raise Failed(f"{ranks} ranks, {mode} mode: differs by {found:.1e} from the run without Penstock")
        self.largest = max(self.largest, found)


def plan_of(program, only_ranks):
    """Each number of ranks in the first mode, the middle one in the others."""
    if only_ranks:
        return [(only_ranks, program.modes[0])]
    middle = program.ranks[len(program.ranks) // 2]
    return [(ranks, program.modes[0]) for ranks in program.ranks] + [(middle, mode) for mode in program.modes[1:]]


def attempt(name, program, build, folder, venvs, only_ranks=None):
    """The cells of a row behind version and MPI, and what failed."""
    trial = Trial(name, program, program.launcher(build, venvs), folder)
    passed, errors = {}, []
    for ranks, mode in plan_of(program, only_ranks):
        try:
            began = time.monotonic()
            trial.compare(ranks, mode)
            passed.setdefault(mode, []).append(str(ranks))
            print(f"works-with: {name}: {ranks} ranks, {mode} mode: ok in {time.monotonic() - began:.0f} s", flush=True)
        except Failed as error:
            errors.append(f"{ranks} ranks, {mode} mode: {str(error.args[0]).splitlines()[0]}")
            print(f"works-with: {name}: {ranks} ranks, {mode} mode: FAILED: {error.args[0]}", flush=True)
            if len(error.args) > 1:
                print("\n".join(error.args[1].splitlines()[-40:]), flush=True)
    same = "same results" if trial.largest == 0 else f"results within {trial.largest:.0e}"
    cells = [f"{program.case}; {same}" if passed else program.case, "; ".join(f"{mode} {', '.join(ranks)}" for mode, ranks in passed.items()),
             trial.traffic, " ".join([program.note, *(f"**Fails**: {error}." for error in errors)]).strip()]
    return cells, errors


def row_of(name, program, cells):
    first = [f"[{program.title}](../tests/works-with/programs/{name}.py)", program.shown_version(), program.launcher.name if program.launcher else "–"]
    return "| " + " | ".join(cell.replace("|", "\\|") or "–" for cell in [*first, *cells]) + " |"


def write_row(name, row):
    """Replaces the program's row, or puts it where the names' order wants it. Rows of programs that are gone go."""
    page = PAGE.read_text()
    before, _, rest = page.partition(HEAD)
    rows = {match.group(1): match.group(0) for match in ROW.finditer(rest)}
    _, _, after = rest.partition("\n\n")
    rows[name] = row
    known = names()
    table = "\n".join(rows[each] for each in sorted(rows, key=lambda each: rows[each].lower()) if each in known)
    PAGE.write_text(f"{before}{HEAD}{table}\n\n{after}")


def of_today():
    quick = [name for name in names() if program_of(name).quick]
    first = 2 * datetime.date.today().toordinal()
    return sorted({quick[(first + more) % len(quick)] for more in (0, 1)})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="a file of programs/, without .py")
    parser.add_argument("--build", type=Path, default=SOURCE / "build")
    parser.add_argument("--venvs", type=Path, help="keep the virtual environments here, for the next time")
    parser.add_argument("--ranks", type=int, help="only this number of ranks, in the first mode; the page stays as it is")
    parser.add_argument("--today", action="store_true", help="two of the quick programs")
    parser.add_argument("--no-table", action="store_true", help="leave docs/works-with.md as it is")
    options = parser.parse_args()
    if unknown := sorted(set(options.names) - set(names())):
        parser.error(f"there is no program '{unknown[0]}'; known are {', '.join(names())}")
    chosen = of_today() if options.today else options.names or names()
    ranks = options.ranks or (3 if options.today else None)
    failed, skipped, began = [], [], time.time() - 1  # file times are of the clock's last tick
    with tempfile.TemporaryDirectory(prefix="penstock-works-with-", ignore_cleanup_errors=True) as folder:
        os.environ["TMPDIR"] = folder  # programs leave caches there
        for name in chosen:
            program = program_of(name)
            try:
                if program.reason:
                    cells, errors = ["–", "–", "–", program.reason], []
                    skipped.append(name)
                else:
                    cells, errors = attempt(name, program, options.build.resolve(), Path(folder),
                                            (options.venvs or Path(folder) / "venvs").absolute(), ranks)
            except CannotBeHad as reason:
                skipped.append(name)
                print(f"works-with: {name}: skipped: {reason.args[0]}", *(reason.args[1:] and [reason.args[1][-3000:]]), sep="\n", flush=True)
                continue
            failed += [f"{name}: {error}" for error in errors]
            if not ranks and not options.no_table:
                write_row(name, row_of(name, program, cells))
    remove_remains(began)
    print(f"works-with: {len(chosen) - len(skipped)} of {len(chosen)} programs ran, {len(failed)} runs failed" + "".join(f"\n  {each}" for each in failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.path.insert(0, str(HERE))
    sys.exit(main())
