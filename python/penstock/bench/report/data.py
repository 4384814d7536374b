"""The results for the report: without values that cannot be shown, and grouped by comparability.

Results come from a file that a user names: any field may be missing or of another type. A value that is not a finite
number is None, and is shown as a dash.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from penstock.bench import model
from penstock.bench.report import words

_LIMIT = re.compile(r"\blimit\b|\braw copy\b|\bcopy (into|out of) the pool\b", re.IGNORECASE)
_RING = re.compile(r"^(cmpi|published) ring\b", re.IGNORECASE)
_OURS = re.compile(r"penstock\b|pool\b", re.IGNORECASE)
# Two series that name different members of one of these kinds must not be compared.
_KINDS = tuple(re.compile(words_) for words_ in (r"\b(software|hardware|uncached|simulated)\b", r"\b(HH|HD|DH|DD)\b"))
WALL_CLOCK = ("latency_us", "time_us", "bandwidth_MBps", "rate_per_s")
TIMES = ("latency_us", "time_us")
COUNTED = ("accesses", "bytes_device", "lines_flushed", "copies", "model_us", "growth", "bytes_up", "bytes_down", "packets",
           "bytes_reduced", "reads_most", "writes_most", "reads_rank", "writes_rank")  # the same in every round


@dataclass(frozen=True)
class Figure:
    """model.Row, with None for each value that is not a finite number."""

    series: str
    op: str
    metric: str
    group: Optional[str] = None
    bytes: Optional[int] = None
    procs: Optional[int] = None
    median: Optional[float] = None
    p99: Optional[float] = None
    min: Optional[float] = None
    max: Optional[float] = None
    spread: Optional[float] = None
    rounds: Optional[int] = None
    baseline: bool = False
    theirs: bool = False
    serialized: Optional[float] = None
    wall: bool = True

    @property
    def limit(self) -> bool:
        """True for the raw limit: what the machine achieves without a protocol."""
        return not self.theirs and bool(_LIMIT.search(self.series))

    @property
    def base(self) -> bool:
        """True for baselines that Penstock is compared with, except the raw limit."""
        return not self.theirs and not self.limit and (self.baseline or bool(_RING.search(self.series)))

    @property
    def tcp(self) -> bool:
        return self.base and "tcp" in self.series.lower()

    @property
    def ours(self) -> bool:
        """True for Penstock's series and for pool memory. A series that is only shown is neither ours nor a base."""
        return not (self.theirs or self.limit or self.base) and bool(_OURS.match(self.series))

    @property
    def comparable(self) -> bool:
        """False for times with more ranks than cores, which show the scheduler."""
        return self.wall or self.metric not in WALL_CLOCK

    @property
    def real_us(self) -> Optional[Tuple[float, float]]:
        """The modeled time on a real device: serialized accesses x its published latencies; None if it does not apply."""
        from penstock.bench.published import ACCESS_US

        if self.serialized is None or self.theirs or self.base or self.metric not in (*TIMES, "accesses"):
            return None  # a baseline accesses no device
        return self.serialized * ACCESS_US[0], self.serialized * ACCESS_US[1]


@dataclass(frozen=True)
class Line:
    """model.Plot."""

    id: str
    title: str
    where: Mapping[str, Any]
    x: str
    y: str
    split: str
    logx: bool
    logy: bool
    unit: str


@dataclass(frozen=True)
class Growth:
    """model.Formula."""

    series: str
    group: Optional[str]
    op: str
    metric: str
    text: str


@dataclass(frozen=True)
class Experiment:
    """model.Outcome; `id`: a unique name that is valid in HTML and in file systems."""

    name: str
    id: str
    title: str
    about: str
    source: str
    emulated: str
    status: str
    reason: Optional[str]
    seconds: Optional[float]
    figures: Tuple[Figure, ...]
    plots: Tuple[Line, ...]
    formulas: Tuple[Growth, ...] = ()


@dataclass(frozen=True)
class Report:
    """The results of a whole run."""

    penstock: str
    commit: str
    command: str
    started: str
    seconds: Optional[float]
    quick: bool
    machine: Tuple[Tuple[str, str], ...]
    warnings: Tuple[str, ...]
    experiments: Tuple[Experiment, ...] = field(default_factory=tuple)

    @property
    def machine_name(self) -> str:
        """The processor's name, with family and model if the name is not specific."""
        facts = dict(self.machine)
        name = facts.get("processor", "unknown machine")
        numbers = [f"{word} {facts[f'processor {word}']}" for word in ("family", "model")
                   if facts.get(f"processor {word}", words.NONE) != words.NONE]
        return f"{name} ({', '.join(numbers)})" if numbers else name


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _items(value: object) -> List[Any]:
    return list(value) if isinstance(value, (list, tuple)) else []


def _words(value: object, otherwise: str = "") -> str:
    """The text without characters that HTML and XML forbid: control characters and unpaired surrogates."""
    return otherwise if value is None else re.sub(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", str(value))


def _count(value: object) -> Optional[int]:
    found = words.finite(value)
    return None if found is None else int(found)


def _figure(row: Mapping[str, Any]) -> Figure:
    numbers: Dict[str, Optional[float]] = {name: words.finite(row.get(name)) for name in
                                           ("median", "p99", "min", "max", "spread", "serialized")}
    return Figure(_words(row.get("series"), "(no name)"), _words(row.get("op")), _words(row.get("metric")),
                  None if row.get("group") is None else _words(row["group"]), _count(row.get("bytes")), _count(row.get("procs")),
                  numbers["median"], numbers["p99"], numbers["min"], numbers["max"], numbers["spread"],
                  _count(row.get("rounds")), bool(row.get("baseline")), bool(row.get("theirs")), numbers["serialized"],
                  row.get("wall") is not False)


def _line(plot: Mapping[str, Any], number: int) -> Line:
    return Line(_words(plot.get("id"), str(number)), _words(plot.get("title")), _mapping(plot.get("where")),
                _words(plot.get("x"), "bytes"), _words(plot.get("y"), "median"), _words(plot.get("split"), "series"),
                plot.get("logx") is not False, plot.get("logy") is not False, _words(plot.get("unit")))


def _id(name: str, number: int) -> str:
    plain = re.sub(r"[^A-Za-z0-9_]", "-", name)[:40]
    return plain if plain == name else f"{plain}-{number}"


def _experiment(name: str, number: int, found: Mapping[str, Any]) -> Experiment:
    figures = tuple(_figure(row) for row in _items(found.get("rows")) if isinstance(row, Mapping))
    plots = tuple(_line(plot, number) for number, plot in enumerate(_items(found.get("plots"))) if isinstance(plot, Mapping))
    formulas = tuple(Growth(_words(each.get("series")), None if each.get("group") is None else _words(each["group"]), _words(each.get("op")),
                            _words(each.get("metric")), _words(each.get("text")))
                     for each in _items(found.get("formulas")) if isinstance(each, Mapping))
    reason = found.get("reason")
    return Experiment(name, _id(name, number), _words(found.get("title"), name), _words(found.get("about")), _words(found.get("source")),
                      _words(found.get("emulated")), _words(found.get("status"), "failed"),
                      None if reason is None else _words(reason), words.finite(found.get("seconds")), figures, plots, formulas)


def _fact(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return _words(value, words.NONE)


def report_of(results: Mapping[str, Any]) -> Report:
    """The contents of results.json, cleaned. Never raises."""
    return Report(_words(results.get("penstock"), "unknown"), _words(results.get("commit"), "unknown"),
                  _words(results.get("command"), "unknown"), _words(results.get("started"), "unknown"),
                  words.finite(results.get("seconds")), bool(results.get("quick")),
                  tuple((_words(name), _fact(value)) for name, value in _mapping(results.get("machine")).items()),
                  tuple(map(_words, _items(results.get("warnings")))),
                  tuple(_experiment(_words(name), number, _mapping(found))
                        for number, (name, found) in enumerate(_mapping(results.get("experiments")).items())))


@dataclass(frozen=True)
class Subject:
    """The subject of a table: the figures of one operation and one metric."""

    group: Optional[str]
    op: str
    metric: str

    @property
    def title(self) -> str:
        metric = metric_words(self.metric)
        op = self.op.removesuffix(" " + metric.split(",")[0])
        return ", ".join(part for part in (self.group, "" if metric.startswith(op) else op, metric) if part)


def metric_words(metric: str) -> str:
    return model.METRICS.get(metric, (metric, None))[0]


def less_is_better(metric: str) -> Optional[bool]:
    """Whether less is better; None if neither is, or if the metric is unknown."""
    return model.METRICS.get(metric, (metric, None))[1]


def subjects(figures: Iterable[Figure]) -> Dict[Subject, List[Figure]]:
    """Groups figures by subject, in the order of measurement."""
    found: Dict[Subject, List[Figure]] = {}
    for each in figures:
        found.setdefault(Subject(each.group, each.op, each.metric), []).append(each)
    return found


Place = Tuple[Optional[int], Optional[int]]  # bytes, processes


def by_place(figures: Iterable[Figure]) -> Dict[str, Dict[Place, Figure]]:
    """series -> (bytes, processes) -> figure, of one subject."""
    found: Dict[str, Dict[Place, Figure]] = {}
    for each in figures:
        found.setdefault(each.series, {})[(each.bytes, each.procs)] = each
    return found


def order(place: Place) -> Tuple[int, int]:
    """Sort key: by processes, then by size; missing values come first."""
    return (-1 if place[1] is None else place[1], -1 if place[0] is None else place[0])


def times_better(ours: Figure, other: Figure) -> Optional[float]:
    """How many times better ours is; None if the two cannot or must not be compared."""
    less = less_is_better(ours.metric)
    if less is None or not ours.comparable or not other.comparable or not ours.median or not other.median:
        return None
    if ours.median < 0 or other.median < 0:
        return None
    return other.median / ours.median if less else ours.median / other.median


def alike(ours: str, other: str) -> bool:
    """True if two series may be compared: same mode and placement, and both with or both without an MPI.

    >>> alike("Penstock software, HH", "TCP, HH"), alike("Penstock software", "raw limit, hardware")
    (True, False)
    >>> alike("Penstock software, without MPI", "TCP"), alike("Penstock software, without MPI", "cMPI ring, software")
    (False, True)
    """
    for kind in _KINDS:
        found = kind.search(ours), kind.search(other)
        if found[0] and found[1] and found[0][1] != found[1][1]:
            return False
    ring = bool(_RING.search(other))
    return (ring or bool(_LIMIT.search(other))) if "without MPI" in ours else not ring


def beyond_spread(one: Figure, other: Figure) -> bool:
    """True if the medians differ by more than both spreads together. True for single rounds, which have no spread."""
    if one.median is None or other.median is None:
        return False
    return abs(one.median - other.median) > abs(one.median) * (one.spread or 0) + abs(other.median) * (other.spread or 0)
