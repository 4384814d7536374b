"""`penstock bench compare A.json B.json`: reports which figures became better or worse between two runs.

Figures are matched by experiment, series, group, operation, size, processes and metric. A difference counts only if it
exceeds the sum of both spreads. A single round has no spread, so only counts are judged then. Published figures are
skipped. Times with more ranks than cores are not judged, since they show the scheduler.

`penstock bench compare --help` says what the exit status means.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from penstock.bench import model
from penstock.bench.report import words
from penstock.bench.report.data import COUNTED, Figure, Report, beyond_spread, less_is_better, report_of, times_better

EXIT_SAME, EXIT_ERROR, EXIT_WORSE = 0, 1, 3
BETTER, WORSE, SAME, UNJUDGED = "better", "worse", "within the spread", "not judged"
OF_A_RUN = ("load at the start", "hypervisor steal", "CPUs of this process")  # differ between runs on the same machine
Key = Tuple[str, str, str, Optional[int], Optional[int], str]


@dataclass(frozen=True)
class Change:
    """One figure in both runs. `times`: how many times better the second run is; None if unknown, and `why` says why."""

    experiment: str
    first: Figure
    second: Figure
    times: Optional[float]
    verdict: str
    why: str = ""


@dataclass(frozen=True)
class Comparison:
    """`notes`: figures that one run lacks; `machines`: facts that differ; `formulas`: subjects and their growth in each run."""

    changes: Sequence[Change]
    notes: Sequence[str]
    machines: Sequence[str]
    formulas: Sequence[Tuple[str, str, str]] = ()

    def of(self, verdict: str) -> List[Change]:
        return [each for each in self.changes if each.verdict == verdict]

    @property
    def status(self) -> int:
        return EXIT_WORSE if self.of(WORSE) else EXIT_SAME

    def as_dict(self) -> Dict[str, Any]:
        """The comparison as --json prints it."""
        return {"machines_differ": list(self.machines), "notes": list(self.notes), "worse": len(self.of(WORSE)),
                "better": len(self.of(BETTER)),
                "formulas": [{"of": what, "first": one, "second": other} for what, one, other in self.formulas],
                "changes": [{"experiment": each.experiment, "series": each.first.series, "group": each.first.group,
                             "op": each.first.op, "bytes": each.first.bytes, "procs": each.first.procs,
                             "metric": each.first.metric, "first": each.first.median, "second": each.second.median,
                             "times_better": each.times, "verdict": each.verdict, "why": each.why or None}
                            for each in self.changes]}


def _judged(experiment: str, first: Figure, second: Figure) -> Change:
    times = times_better(second, first)
    if not first.comparable or not second.comparable:
        return Change(experiment, first, second, None, UNJUDGED, "more ranks than cores")
    if less_is_better(first.metric) is None:
        return Change(experiment, first, second, None, UNJUDGED, "neither less nor more of it is better")
    if times is None:
        if first.median == 0 and second.median == 0:
            return Change(experiment, first, second, 1.0, SAME)
        return Change(experiment, first, second, None, UNJUDGED, "one of the two is zero or no number")
    if first.metric not in COUNTED and min(first.rounds or 0, second.rounds or 0) < 2:
        return Change(experiment, first, second, times, UNJUDGED, "a single round: its spread is not known")
    if not beyond_spread(first, second):
        return Change(experiment, first, second, times, SAME)
    return Change(experiment, first, second, times, BETTER if times > 1 else WORSE)


def _figures(report: Report, name: str) -> Dict[Key, Figure]:
    return {(each.series, each.group or "", each.op, each.bytes, each.procs, each.metric): each
            for experiment in report.experiments if experiment.name == name for each in experiment.figures
            if not each.theirs and not each.series.endswith(model.BEFORE)}


def _formulas(report: Report, name: str) -> Dict[str, str]:
    return {", ".join(part for part in (name, each.series, each.group, each.op, each.metric) if part): each.text
            for experiment in report.experiments if experiment.name == name for each in experiment.formulas
            if not each.series.endswith(model.BEFORE)}


def _missing(name: str, which: str, lost: Sequence[Key]) -> List[str]:
    """Describes the figures that only one run has, by series."""
    series = list(dict.fromkeys(key[0] for key in lost))
    if not series:
        return []
    return [f"{name}: {words.count(len(lost), 'figure')} only in the {which} run, of {words.listed(series[:4])}"
            f"{f' and {len(series) - 4} more series' if len(series) > 4 else ''}"]


def compare(first: Mapping[str, Any], second: Mapping[str, Any]) -> Comparison:
    """Compares two results in the format of results.json.

    >>> compare({"experiments": {"halo": {}}}, {}).notes
    ['halo: only the first run has it']
    """
    one, other = report_of(first), report_of(second)
    names = {each.name: each for each in one.experiments}, {each.name: each for each in other.experiments}
    changes: List[Change] = []
    notes: List[str] = []
    formulas: List[Tuple[str, str, str]] = []
    for name in dict.fromkeys([*names[0], *names[1]]):
        if name not in names[0] or name not in names[1]:
            notes.append(f"{name}: only the {'first' if name in names[0] else 'second'} run has it")
            continue
        figures, others = _figures(one, name), _figures(other, name)
        grows, grew = _formulas(other, name), _formulas(one, name)
        formulas += [(what, text, grows[what]) for what, text in grew.items() if what in grows]
        changes += [_judged(name, figures[key], others[key]) for key in figures if key in others]
        notes += _missing(name, "first", [key for key in figures if key not in others])
        notes += _missing(name, "second", [key for key in others if key not in figures])
    facts, theirs = dict(one.machine), dict(other.machine)
    differ = [f"{fact}: {facts.get(fact, words.NONE)} / {theirs.get(fact, words.NONE)}" for fact in dict.fromkeys([*facts, *theirs])
              if fact not in OF_A_RUN and facts.get(fact) != theirs.get(fact)]
    return Comparison(changes, notes, differ, formulas)


def _line(change: Change) -> List[str]:
    figure = change.first
    what = ", ".join(part for part in (figure.group, figure.op, figure.metric) if part)
    return [change.experiment, figure.series, what, words.size(figure.bytes), str(figure.procs or words.NONE),
            words.number(figure.median), words.number(change.second.median),
            words.NONE if change.times is None else words.ratio(change.times), change.verdict + (f": {change.why}" if change.why else "")]


def told(found: Comparison, everything: bool = False) -> str:
    """The comparison as text, worst changes first. `everything`: includes unchanged and unjudged figures."""
    shown = [*found.of(WORSE), *found.of(BETTER)]
    shown.sort(key=lambda each: each.times or 0)
    if everything:
        shown += [*found.of(SAME), *found.of(UNJUDGED)]
    lines = []
    if found.machines:
        lines += ["warning: the machines differ, so the figures say little of the code:", *(f"  {each}" for each in found.machines), ""]
    if shown:
        table = [["experiment", "series", "what", "size", "processes", "first", "second", "times better", ""], *map(_line, shown)]
        widths = [max(len(row[column]) for row in table) for column in range(9)]
        lines += ["  ".join(text.rjust(width) if 3 <= column <= 7 else text.ljust(width)
                            for column, (text, width) in enumerate(zip(row, widths))).rstrip() for row in table] + [""]
    grown = [["how it grows with n, the ranks", "first", "second"], *([*each] for each in found.formulas if everything or each[1] != each[2])]
    if len(grown) > 1:
        widths = [max(len(row[column]) for row in grown) for column in range(3)]
        lines += ["  ".join(text.ljust(width) for text, width in zip(row, widths)).rstrip() for row in grown] + [""]
    counts = [f"{len(found.of(verdict))} {verdict}" for verdict in (WORSE, BETTER, SAME, UNJUDGED)]
    lines += [f"{words.count(len(found.changes), 'figure')} in both runs: {', '.join(counts)}", *found.notes]
    return "\n".join(lines)


def run(first: Path, second: Path, as_json: bool = False, everything: bool = False) -> int:
    """Prints the comparison of two files, and returns the exit status."""
    try:
        found = compare(model.read(first).as_dict(), model.read(second).as_dict())
    except model.ModelError as error:
        print(f"penstock: error: {error}", file=sys.stderr)
        return EXIT_ERROR
    print(json.dumps(found.as_dict(), indent=1, ensure_ascii=False) if as_json else told(found, everything))
    return found.status
