"""The results of a run, in the format of DIR/results.json: schema 1.

    {"schema": 1, "penstock": "0.3.0", "commit": "dfed3b7" or null, "command": "penstock bench run pt2pt",
     "started": "2026-01-02T03:04:05+00:00", "seconds": 12.5, "quick": false,
     "machine": {"processor": "…", …}, "warnings": ["…", …],
     "experiments": {NAME: {"title": "…", "about": one sentence, "source": "cMPI, Table 1",
                            "emulated": one sentence on what is emulated here,
                            "status": "ok", "reason": null, "seconds": 3.5, "rows": [ROW, …], "plots": [PLOT, …],
                            "formulas": [FORMULA, …]}}}

A row is one figure of one series: the statistics of its rounds, see `Row`. A plot selects the rows of a figure, see
`Plot`. `machine` is flat: its values are words, numbers or null. The file is written after each experiment, so an
interrupted run keeps its figures. Units: MB = 10^6 bytes; microseconds; seconds. `read()` refuses other schemas.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
import statistics
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

SCHEMA = 1
STATUSES = ("ok", "partial", "absent", "failed", "interrupted")
BEFORE = ", before"  # suffix of a series of an earlier run (`penstock bench run --before`)
Fact = Union[str, int, float, bool, None]

# Each metric's description, and whether less is better; None: neither is.
METRICS: Dict[str, "tuple[str, Optional[bool]]"] = {
    "latency_us": ("latency, microseconds", True),
    "time_us": ("time of a call, microseconds", True),
    "bandwidth_MBps": ("bandwidth, MB/s", False),
    "rate_per_s": ("operations a second", False),
    "cpu_us": ("CPU time of a call, microseconds", True),
    "cpu_s_per_GB": ("CPU-seconds for each GB moved", True),
    "accesses": ("serialized device accesses of a call", True),
    "bytes_device": ("bytes that a call moves to and from the device", True),
    "bytes_socket": ("bytes that a call moves by sockets", True),
    "messages": ("messages that a call sends through the pool", True),
    "bytes_pool": ("bytes that these messages carry", True),
    "looks_in_vain": ("looks for a message, or for room, that found nothing", True),
    "lines_flushed": ("cache lines that a call flushes", True),
    "memory_MB": ("memory by which the processes grew, MB", True),
    "copies": ("copies of a message", True),
    "calls": ("calls that return before one waits", False),
    "model_us": ("modelled time of a call, microseconds", True),
    "growth": ("modelled time over that on 3 nodes", True),
    "bytes_up": ("bytes that a call writes over the link of a host", True),
    "bytes_down": ("bytes that a call reads over the link of a host", True),
    "packets": ("packets, or doorbells and releases, that a rank writes in a call", True),
    "bytes_reduced": ("bytes that a call reduces on a host", True),
    "cpu_s": ("CPU-seconds of all ranks together", True),
    "pool_MB": ("bytes taken of the pool, MB", True),
    "private_MB": ("a process's own memory, MB, of the one with most", True),
    "threads": ("threads of a process", True),
    "descriptors": ("open files of a process", True),
    "reads_most": ("lines that a rank reads from the device, of the one with most", True),
    "writes_most": ("lines that a rank writes to the device, of the one with most", True),
    "reads_rank": ("lines that a rank reads from the device, on average", True),
    "writes_rank": ("lines that a rank writes to the device, on average", True),
    "reads_per_s": ("lines that a rank reads from the device in a second", True),
}


class ModelError(Exception):
    """A results file cannot be read. The text says what was found and what was needed."""


@dataclass
class Row:
    """One figure.

    `series`: the system measured ("Penstock, software", "TCP"); `group`: its table, null if there is only one; `op`: the
    operation ("latency", "put pscw"). `bytes`: size of a message, or null; `procs`: ranks, processes or threads.
    `metric`: a key of METRICS. `median` = `p50`, `p99`, `min`, `max` are taken over the `rounds` interleaved rounds; each
    round's figure is itself the mean or median of many operations. `spread` is (p75 - p25) / median, 0 for one round.
    `baseline`: Penstock is compared with it; `theirs`: published, not measured here (all statistics are the same
    number). `serialized`: dependent device accesses in one operation, for a model of real latencies; null if unknown.
    `wall`: False if more ranks than cores ran: times then show the scheduler, and no ratio of them may be printed.
    """

    series: str
    op: str
    metric: str
    median: float
    p50: float
    p99: float
    min: float
    max: float
    spread: float
    rounds: int
    group: Optional[str] = None
    bytes: Optional[int] = None
    procs: int = 1
    baseline: bool = False
    theirs: bool = False
    serialized: Optional[float] = None
    wall: bool = True

    def key(self) -> "tuple[str, str, str, int, int, str]":
        """Identifies the same figure in another run."""
        return (self.series, self.group or "", self.op, self.bytes or 0, self.procs, self.metric)


@dataclass
class Plot:
    """A plot of the rows that match `where`: `y` over `x`, one line for each value of `split`.

    `x`: "bytes", "procs" or "series" (bars). `unit`: the label of the y axis.
    """

    id: str
    title: str
    where: Dict[str, Fact]
    x: str = "bytes"
    y: str = "median"
    split: str = "series"
    logx: bool = True
    logy: bool = True
    unit: str = ""


@dataclass
class Formula:
    """How the rows of a series, group, operation and metric grow with `procs`: `text`, a formula in n, and its error."""

    series: str
    op: str
    metric: str
    text: str
    group: Optional[str] = None


@dataclass
class Outcome:
    """The outcome of one experiment."""

    title: str
    about: str
    source: str
    emulated: str
    status: str = "ok"
    reason: Optional[str] = None
    seconds: float = 0.0
    rows: List[Row] = field(default_factory=list)
    plots: List[Plot] = field(default_factory=list)
    formulas: List[Formula] = field(default_factory=list)


@dataclass
class Results:
    """The results of a whole run."""

    penstock: str
    commit: Optional[str]
    command: str
    started: str
    seconds: float = 0.0
    quick: bool = False
    machine: Dict[str, Fact] = field(default_factory=dict)
    warnings: List[str] = field(default_factory=list)
    experiments: Dict[str, Outcome] = field(default_factory=dict)
    schema: int = SCHEMA

    def as_dict(self) -> Dict[str, Any]:
        """The results in the format of results.json, which penstock.bench.report.write takes."""
        return dataclasses.asdict(self)


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 0.5), percentile([1.0, 2.0], 0.99), percentile([7.0], 0.99)
    (2.0, 2.0, 7.0)
    """
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def row(series: str, op: str, metric: str, values: Sequence[float], **facts: Any) -> Row:
    """Makes a row from the figures of all rounds. `facts`: Row's other fields.

    >>> figure = row("TCP", "latency", "latency_us", [3.0, 1.0, 2.0], bytes=8, procs=2)
    >>> figure.median, figure.min, figure.max, figure.rounds, round(figure.spread, 2)
    (2.0, 1.0, 3.0, 3, 1.0)
    """
    median = statistics.median(values)
    spread = (percentile(values, 0.75) - percentile(values, 0.25)) / median if median else 0.0
    return Row(series, op, metric, median, median, percentile(values, 0.99), min(values), max(values), spread,
               len(values), **facts)


def theirs(series: str, op: str, metric: str, value: float, **facts: Any) -> Row:
    """Makes a row for a published figure."""
    return row(series, op, metric, [value], theirs=True, **facts)


def write(results: Results, path: Path) -> None:
    """Replaces the file atomically, so that readers always find a complete one."""
    young = path.with_name(path.name + ".new")
    young.write_text(json.dumps(results.as_dict(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(young, path)


def _checked(found: Any, kind: type, where: str) -> Any:
    if isinstance(found, kind):
        return found
    raise ModelError(f"{where}: found {type(found).__name__}, needed {kind.__name__}: give a results.json that `penstock bench run` "
                     "wrote")


def _made(kind: Any, found: Any, where: str) -> Any:
    fields = dataclasses.fields(kind)
    given = {each.name: found[each.name] for each in fields if each.name in _checked(found, dict, where)}
    lost = [each.name for each in fields if each.default is each.default_factory is dataclasses.MISSING and each.name not in given]
    if lost:
        raise ModelError(f"{where}: {', '.join(lost)} is missing: give a results.json that `penstock bench run` wrote")
    return kind(**given)


def read(path: Path) -> Results:
    """Reads a results file. Errors: ModelError, also for invalid JSON or another schema. Ignores fields of later versions."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ModelError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise ModelError(f"{path} is no JSON ({error}): give a results.json that `penstock bench run` wrote") from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        schema = found.get("schema") if isinstance(found, dict) else None
        raise ModelError(f"{path} has schema {schema}, this version reads schema {SCHEMA}: give a results.json that "
                         "`penstock bench run` wrote")
    experiments = {}
    for name, each in _checked(found.pop("experiments", {}), dict, f"{path}, experiments").items():
        made: Outcome = _made(Outcome, each, f"{path}, {name}")
        made.rows = [_made(Row, one, f"{path}, a row of {name}") for one in _checked(each.get("rows", []), list, f"{path}, rows of {name}")]
        made.formulas = [_made(Formula, one, f"{path}, a formula of {name}")
                         for one in _checked(each.get("formulas", []), list, f"{path}, formulas of {name}")]
        made.plots = [_made(Plot, one, f"{path}, a plot of {name}") for one in _checked(each.get("plots", []), list, f"{path}, plots of {name}")]
        experiments[name] = made
    results: Results = _made(Results, found, str(path))
    results.experiments = experiments
    return results
