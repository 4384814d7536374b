"""Prints results as tables on the terminal, by rich."""

from __future__ import annotations

from typing import Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

from rich.console import Console
from rich.table import Table

from penstock.bench import sizes
from penstock.bench.model import METRICS, Outcome, Row

Part = Tuple[str, str, str, int]  # group, op, metric, procs (if several were measured)
TIMES = ("latency_us", "time_us", "bandwidth_MBps", "rate_per_s")
STYLES = {"ok": "green", "partial": "yellow", "absent": "yellow", "failed": "red", "interrupted": "yellow"}


class Output(Console):
    """A console that passes broken pipes on to `penstock.bench.__main__`; rich would exit with status 1."""

    def on_broken_pipe(self) -> None:
        raise


def console() -> Console:
    """A console as wide as the terminal. In a file, tables are not wrapped."""
    made = Output(highlight=False)
    return made if made.is_terminal else Output(highlight=False, width=160)


def figure(value: float) -> str:
    """Formats a number with at least three significant digits.

    >>> figure(0.1234), figure(12.345), figure(12345.6)
    ('0.123', '12.35', '12346')
    """
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.2f}" if abs(value) < 100 else f"{value:.0f}"


def parts_of(rows: Iterable[Row]) -> Dict[Part, List[Row]]:
    """Groups rows by table, in the order of measurement."""
    found: Dict[Part, List[Row]] = {}
    for row in rows:
        found.setdefault((row.group or "", row.op, row.metric, row.procs), []).append(row)
    return found


def comparable(part: Part, rows: Sequence[Row]) -> bool:
    """True if ratios of these rows may be printed: not for times with more ranks than cores."""
    return part[2] not in TIMES or all(row.wall for row in rows)


def times_better(metric: str, own: float, other: float) -> Optional[float]:
    """How many times better `own` is than `other`; None if neither is better or one was not measured."""
    less = METRICS.get(metric, ("", None))[1]
    if less is None or not own or not other:
        return None
    return other / own if less else own / other


def heading(part: Part, rows: Sequence[Row]) -> str:
    group, op, metric, procs = part
    words, less = METRICS.get(metric, (metric, None))
    better = "" if less is None else ", less is better" if less else ", more is better"
    where = [name for name in (group, op) if name]
    note = "" if all(row.wall for row in rows) else "; more ranks than cores"
    return f"{', '.join(where)}: {words}{better} ({procs} {'process' if procs == 1 else 'processes'}{note})"


def print_part(console: Console, part: Part, rows: Sequence[Row]) -> None:
    columns = sorted({row.bytes or 0 for row in rows})
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    for size in columns:
        table.add_column(sizes.said(size) if size else "", justify="right")
    table.add_column("spread", justify="right")
    series: Dict[str, Dict[int, Row]] = {}
    for row in rows:
        series.setdefault(row.series + (" (theirs)" if row.theirs else ""), {})[row.bytes or 0] = row
    for name, found in series.items():
        spread = max(row.spread for row in found.values())
        table.add_row(name, *(figure(found[size].median) if size in found else "" for size in columns), f"{spread:.0%}")
    if comparable(part, rows):
        _add_ratios(table, part[2], series, columns)
    console.print()
    console.print(f"[bold]{heading(part, rows)}[/bold]")
    console.print(table)


def _add_ratios(table: Table, metric: str, series: Dict[str, Dict[int, Row]], columns: Sequence[int]) -> None:
    """Adds lines that say how many times better each of our series is than each baseline."""
    def is_baseline(name: str) -> bool:
        return any(row.baseline for row in series[name].values())

    for name in series:
        if is_baseline(name) or not name.startswith("Penstock"):
            continue
        for base in filter(is_baseline, series):
            cells = []
            for size in columns:
                own, other = series[name].get(size), series[base].get(size)
                ratio = times_better(metric, own.median, other.median) if own and other else None
                cells.append(f"{ratio:.2f}×" if ratio else "")
            if any(cells):
                table.add_row(f"[dim]{name} beside {base}[/dim]", *cells, "")


def print_outcome(console: Console, name: str, outcome: Outcome) -> None:
    style = STYLES.get(outcome.status, "red")
    console.print()
    console.rule(f"[bold]{name}[/bold]: {outcome.title}", align="left")
    console.print(f"{outcome.about} ({outcome.source})", highlight=False)
    growing = {(each.group, each.op, each.metric) for each in outcome.formulas}
    for part, rows in parts_of([row for row in outcome.rows if (row.group, row.op, row.metric) not in growing]).items():
        print_part(console, part, rows)
    print_growth(console, outcome)
    if outcome.reason:
        console.print(f"[{style}]{outcome.status}[/{style}]: ", end="")
        console.print(outcome.reason, highlight=False, markup=False)


def print_growth(console: Console, outcome: Outcome) -> None:
    """Prints the figures with formulas: a table per group, a line per figure, a column per number of processes."""
    formulas = {(each.group, each.op, each.metric, each.series): each.text for each in outcome.formulas}
    growing = {key[:3] for key in formulas}
    rows = [row for row in outcome.rows if (row.group, row.op, row.metric) in growing]
    for group in dict.fromkeys(row.group for row in rows):
        own = [row for row in rows if row.group == group]
        counts = sorted({row.procs for row in own})
        table = Table(box=None, pad_edge=False)
        for title in ("", "", ""):
            table.add_column(title)
        for count in counts:
            table.add_column(f"n = {count:,}", justify="right")
        table.add_column("formula")
        lines: Dict[Tuple[str, str, str], Dict[int, Row]] = {}
        for row in own:
            lines.setdefault((row.op, row.metric, row.series), {})[row.procs] = row
        said = None
        for op, metric, series in sorted(lines, key=lambda key: (list(lines).index(_first(lines, key)), key[2])):
            found = lines[op, metric, series]
            subject = (op, METRICS.get(metric, (metric, None))[0])
            table.add_row(*(("", "") if subject == said else subject), series,
                          *(figure(found[count].median) if count in found else "" for count in counts),
                          formulas.get((group, op, metric, series), ""))
            said = subject
        console.print()
        console.print(f"[bold]{group or 'all'}[/bold]; n: ranks")
        console.print(table)


def _first(lines: Mapping[Tuple[str, str, str], object], key: Tuple[str, str, str]) -> Tuple[str, str, str]:
    """The first line with the same operation and metric, so that lines of several series are kept together."""
    return next(each for each in lines if each[:2] == key[:2])


def print_machine(console: Console, facts: Mapping[str, object], warned: Sequence[str]) -> None:
    for name in ("processor", "CPUs of this process", "memory GiB", "governor", "NUMA balancing", "hypervisor"):
        if facts.get(name) is not None:
            console.print(f"{name}: {facts[name]}", highlight=False, markup=False)
    for words in warned:
        console.print("[yellow]warning[/yellow]: ", end="")
        console.print(words, highlight=False, markup=False)


def progress_line(console: Console) -> Tuple[Callable[[str, int, int, str], None], Callable[[], None]]:
    """Returns a function that shows an experiment's progress on a terminal, and one that ends the display."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    bar = Progress(TextColumn("{task.fields[name]}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                   TextColumn("{task.description}"), console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task("", total=None, name="")
    bar.start()

    def show(name: str, done: int, most: int, words: str) -> None:
        bar.update(task, completed=done, total=most, description=words, name=name)

    return show, bar.stop
