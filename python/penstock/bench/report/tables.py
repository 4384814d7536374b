"""The tables of the report, for HTML and Markdown alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from penstock.bench import published
from penstock.bench.report import words
from penstock.bench.report.crossover import Crossover
from penstock.bench.report.findings import named, noun
from penstock.bench.report.data import (Experiment, Figure, Place, Report, Subject, alike, beyond_spread, by_place,
                                        metric_words,
                                        order, subjects, times_better)

REAL = "on real CXL, µs (model)"
MOST_LINES = 400


@dataclass(frozen=True)
class Cell:
    """A cell. `sort`: the sort key; `kind`: "better", "worse", "faint" or ""."""

    text: str
    sort: Optional[float] = None
    kind: str = ""


@dataclass(frozen=True)
class Table:
    """A table. `numeric`: the columns that are right-aligned."""

    title: str
    columns: Sequence[str]
    numeric: Sequence[bool]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


def _median(figure: Optional[Figure]) -> Cell:
    if figure is None or figure.median is None:
        return Cell(words.NONE)
    spread = "" if not figure.spread or figure.theirs else f" ± {figure.spread / 2 * 100:.0f} %"
    return Cell(words.number(figure.median) + spread, figure.median, "" if figure.comparable else "faint")


def _ratio(ours: Optional[Figure], other: Optional[Figure]) -> Cell:
    times = times_better(ours, other) if ours and other else None
    if times is None or ours is None or other is None:
        return Cell(words.NONE)
    kind = "" if not beyond_spread(ours, other) else "better" if times > 1 else "worse"
    return Cell(words.ratio(times), times, kind)


def _real(figure: Optional[Figure]) -> Cell:
    real = figure.real_us if figure else None
    if real is None or figure is None:
        return Cell(words.NONE)
    return Cell(f"{words.number(real[0])} to {words.number(real[1])}", real[0])


def _size(place: Place) -> Cell:
    return Cell(words.size(place[0]), -1 if place[0] is None else place[0])


def _procs(place: Place) -> Cell:
    return Cell(words.NONE if place[1] is None else str(place[1]), place[1])


def _notes(figures: Sequence[Figure]) -> str:
    said = []
    if any(each.spread and not each.theirs for each in figures):
        said.append("Medians of interleaved rounds; ± is half of the spread between quartiles.")
    if any(not each.comparable for each in figures):
        said.append("Grey: more ranks than cores; such times show the scheduler, and no ratio is given.")
    return " ".join(said)


def by_size(subject: Subject, figures: Sequence[Figure]) -> Table:
    """A line for each size and number of processes, a column for each series; then ratios and the model."""
    series: Dict[str, Dict[Place, Figure]] = by_place(figures)
    places = sorted({place for each in series.values() for place in each}, key=order)
    own = [name for name, each in series.items() if all(figure.ours for figure in each.values())]
    bases = [name for name, each in series.items() if all(figure.base or figure.limit for figure in each.values())]
    compared = [(ours, base) for ours in own for base in bases if alike(ours, base)
                and any(_ratio(series[ours].get(place), series[base].get(place)).sort for place in places)]
    modelled = [name for name in own if any(figure.real_us for figure in series[name].values())]
    sized, counted = any(place[0] is not None for place in places), any(place[1] is not None for place in places)
    columns = [*(["size"] if sized else []), *(["processes"] if counted else []),
               *(f"{name}{' (published)' if all(each.theirs for each in series[name].values()) else ''}" for name in series),
               *(f"{ours}: times better than {base}" for ours, base in compared), *(f"{name}: {REAL}" for name in modelled)]
    rows = [[*([_size(place)] if sized else []), *([_procs(place)] if counted else []),
             *(_median(each.get(place)) for each in series.values()),
             *(_ratio(series[ours].get(place), series[base].get(place)) for ours, base in compared),
             *(_real(series[name].get(place)) for name in modelled)] for place in places]
    return Table(subject.title, columns, [True] * len(columns), rows, _notes(figures))


def by_series(subject: Subject, figures: Sequence[Figure]) -> Table:
    """For a single size: a line for each series."""
    modelled = any(each.real_us for each in figures)
    rows = []
    for each in figures:
        origin = "published" if each.theirs else "limit" if each.limit else "baseline" if each.base else "measured"
        rows.append([Cell(each.series), _median(each), Cell(origin), *([_real(each)] if modelled else [])])
    columns = ["", metric_words(subject.metric), "", *([REAL] if modelled else [])]
    return Table(subject.title, columns, [False, True, False, True][:len(columns)], rows, _notes(figures))


def of_growth(experiment: Experiment) -> List[Table]:
    """Tables of figures with formulas, one per group: a line per operation, metric and series, a column per rank count."""
    formulas = {(each.group, each.op, each.metric, each.series): each.text for each in experiment.formulas}
    growing = {key[:3] for key in formulas}
    own = [each for each in experiment.figures if (each.group, each.op, each.metric) in growing]
    found = []
    for group in dict.fromkeys(each.group for each in own):
        figures = [each for each in own if each.group == group]
        counts = sorted({each.procs for each in figures if each.procs is not None})
        subject_order = list(dict.fromkeys((each.op, each.metric) for each in figures))
        lines: Dict[Tuple[str, str, str], Dict[Optional[int], Figure]] = {}
        for each in figures:
            lines.setdefault((each.op, each.metric, each.series), {})[each.procs] = each
        rows = [[Cell(op), Cell(metric_words(metric)), Cell(series), *(_median(lines[op, metric, series].get(count)) for count in counts),
                 Cell(formulas.get((group, op, metric, series), words.NONE))]
                for op, metric, series in sorted(lines, key=lambda key: (subject_order.index(key[:2]), key[2]))]
        columns = ["", "", "", *(f"n = {count:,}" for count in counts), "formula"]
        found.append(Table(group or "by ranks", columns, [False] * 3 + [True] * len(counts) + [False], rows,
                           "n: ranks. A formula is fitted to the figures of its line, with its greatest error."))
    return found


def of_experiment(experiment: Experiment) -> List[Table]:
    """Tables of growth, then a table for each measured subject. Figures that are only published are in `of_paper`."""
    found = of_growth(experiment)
    growing = {(each.group, each.op, each.metric) for each in experiment.formulas}
    for subject, figures in subjects(experiment.figures).items():
        if (subject.group, subject.op, subject.metric) in growing:
            continue
        if all(each.theirs for each in figures) and of_paper(experiment):
            continue
        single = len({(each.bytes, each.procs) for each in figures}) == 1
        found.append((by_series if single else by_size)(subject, figures))
    return found


def in_full(experiment: Experiment) -> Table:
    """Every figure with its statistics."""
    columns = ["series", "operation", "metric", "size", "processes", "median", "p99", "least", "most", "spread", "rounds",
               "serialized accesses", REAL]
    rows = []
    for each in experiment.figures[:MOST_LINES]:
        operation = ", ".join(part for part in (each.group, each.op) if part)
        spread = Cell(words.NONE) if each.spread is None else Cell(f"{each.spread * 100:.0f} %", each.spread)
        numbers = [Cell(words.number(value), value) for value in (each.median, each.p99, each.min, each.max)]
        kind = " (published)" if each.theirs else " (baseline)" if each.base else ""
        rows.append([Cell(each.series + kind), Cell(operation), Cell(each.metric), _size((each.bytes, None)),
                     _procs((None, each.procs)), *numbers, spread,
                     Cell(words.NONE if each.rounds is None else str(each.rounds), each.rounds),
                     Cell(words.NONE if each.serialized is None else f"{each.serialized:g}", each.serialized), _real(each)])
    left = len(experiment.figures) - len(rows)
    note = f"{words.count(left, 'figure')} more in results.json and results.csv." if left > 0 else ""
    return Table("every figure", columns, [False] * 3 + [True] * 10, rows, note)


def _range(low: Optional[int], high: Optional[int]) -> str:
    if low is None or high is None:
        return words.NONE
    return words.size(low) if low == high else f"{words.size(low)} to {words.size(high)}"


def of_paper(experiment: Experiment) -> Optional[Table]:
    """Figures from the papers' prose. The authors' data appear in plots, and are in the package as a file."""
    points = [each for each in published.points() if each.experiment == experiment.name and each.kind == published.TEXT]
    rows = []
    for each in points:
        value = f"{'≈ ' if each.about else ''}{words.number(each.value)}"
        metric = "times" if each.metric == "ratio" else metric_words(each.metric)
        operation = " ".join(each.op)
        rows.append([Cell(each.source), Cell(each.series), Cell(f"{operation}: {metric}" if operation else metric),
                     Cell(_range(each.low, each.high), each.low),
                     Cell(words.NONE if each.procs is None else str(each.procs), each.procs), Cell(value, each.value),
                     Cell(each.words)])
    columns = ["source", "series", "what", "size", "processes", "value", "the paper says"]
    return Table("what the paper publishes", columns, [False, False, False, True, True, True, False], rows) if rows else None


def of_crossovers(found: Sequence[Crossover]) -> Table:
    """A line for each operation, number of processes, series of ours and TCP series."""
    rows = []
    for each in found:
        operation = ", ".join(part for part in (named(each.subject), noun(each.subject.metric)) if part)
        rows.append([Cell(each.experiment.title), Cell(operation), Cell(words.NONE if each.procs is None else str(each.procs), each.procs),
                     Cell(each.ours), Cell(each.other), Cell(each.brief, each.size), Cell(each.published or words.NONE)])
    note = ("From which size of a message on TCP is better, by more than both spreads; between two measured sizes, where the "
            "straight line between their ratios (both axes logarithmic) is 1.")
    columns = ["experiment", "operation", "processes", "series", "against", "TCP wins", "the paper says"]
    return Table("where TCP wins", columns, [False, False, True, False, False, False, False], rows, note)


def of_run(report: Report) -> Table:
    """The experiments, their status and its reason."""
    rows = []
    for each in report.experiments:
        kind = {"ok": "better", "partial": "", "absent": "faint"}.get(each.status, "worse")
        rows.append([Cell(each.name), Cell(each.title), Cell(each.status, None, kind), Cell(str(len(each.figures)), len(each.figures)),
                     Cell(words.seconds(each.seconds), each.seconds), Cell(each.reason or "")])
    columns = ["experiment", "what", "outcome", "figures", "time", "reason"]
    return Table("experiments", columns, [False, False, False, True, True, False], rows)


def environment(report: Report) -> List[Tuple[str, str]]:
    """Names and values of the facts that figures depend on."""
    return [("penstock", f"{report.penstock}, commit {report.commit}"), ("command", report.command),
            ("started", report.started), ("took", words.seconds(report.seconds) + (", --quick" if report.quick else "")),
            *report.machine]
