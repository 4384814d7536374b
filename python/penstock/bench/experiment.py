"""The interface of experiments.

Each module penstock/bench/experiments/NAME.py with `EXPERIMENT = Experiment(...)` is an experiment; it needs no other
registration. Its `run` measures by `Run.rounds`, which runs all variants in turn, round after round, so that
disturbances of the machine hit all alike. An interruption keeps the figures measured so far. `run` raises `Absent` if
it cannot measure at all; if only a part is missing, it reports that by `Run.lacks` and continues.

    def run(run):
        figures = {"Penstock": lambda: {Key("latency", "latency_us", 8): 0.4}}
        run.rounds(figures, default_rounds=5)

    EXPERIMENT = Experiment("example", "An example", "…", source="cMPI, Figure 8", emulated="…", run=run)
"""

from __future__ import annotations

import importlib
import math
import pkgutil
from dataclasses import dataclass, field
from typing import Any, Callable, Collection, Dict, List, Mapping, Optional, Sequence, Set, Tuple, Union

from penstock.bench import budget, model
from penstock.bench.model import Formula, Outcome, Plot, Row


class Absent(Exception):
    """The experiment cannot run here. The text names what is missing and the command that installs it."""


class Failed(Exception):
    """A measurement failed; the others continue."""


@dataclass(frozen=True)
class Settings:
    """The user's options. None: the experiment's own default."""

    sizes: Optional[Tuple[int, ...]] = None
    procs: Optional[Tuple[int, ...]] = None
    repeat: Optional[int] = None
    quick: bool = False
    modes: Optional[Tuple[str, ...]] = None
    timeout: float = 120.0  # seconds for one measurement
    limit: Optional[float] = None  # seconds after which an experiment begins no further round
    budget: Optional[float] = None  # seconds of the whole run
    osu: Optional[str] = None  # a folder of OSU's or Intel's programs, to print beside ours
    stream: Optional[str] = None  # STREAM as published, to print beside ours
    peer: Optional[str] = None  # another host, HOST or HOST:PORT
    pool: Optional[str] = None  # used instead of temporary pools, if the experiment supports it
    before: Optional[model.Results] = None  # an earlier run to show beside this one
    metrics: Optional[Tuple[str, ...]] = None  # keys of model.METRICS
    series: Optional[Tuple[str, ...]] = None  # beginnings of their names

    def wants_metric(self, *names: str) -> bool:
        """
        >>> Settings(metrics=("latency_us",)).wants_metric("cpu_us", "latency_us")
        True
        """
        return self.metrics is None or any(name in self.metrics for name in names)

    def wants_series(self, name: str) -> bool:
        """
        >>> Settings(series=("TCP", "Penstock")).wants_series("Penstock software")
        True
        """
        return self.series is None or name.startswith(self.series)

    def seconds(self) -> float:
        """The time limit of an experiment. An explicit number of rounds has no limit."""
        return self.limit or (math.inf if self.repeat else 8.0 if self.quick else 30.0)

    def whole(self) -> float:
        """The time limit of all experiments together; at least that of one experiment.

        >>> Settings(limit=3600).whole()
        3600
        """
        return self.budget or (math.inf if self.repeat else max(budget.DEFAULT, self.limit or 0))

    def sizes_or(self, usual: Sequence[int], quick: Sequence[int]) -> List[int]:
        return list(self.sizes or (quick if self.quick else usual))

    def procs_or(self, usual: Sequence[int], quick: Sequence[int]) -> List[int]:
        return list(self.procs or (quick if self.quick else usual))


@dataclass(frozen=True)
class Key:
    """Identifies a figure; the fields are those of Row."""

    op: str
    metric: str
    bytes: Optional[int] = None
    group: Optional[str] = None
    procs: int = 1
    wall: bool = True
    serialized: Optional[float] = None
    series: Optional[str] = None  # if one measurement yields several series


Figures = Mapping[Key, Union[float, Sequence[float]]]
Measure = Callable[[], Figures]


class Run:
    """The run of one experiment: its settings, its tools, and the outcome that it fills."""

    def __init__(self, settings: Settings, tools: Any, outcome: Outcome,
                 progress: Callable[[int, int, str], None] = lambda done, most, words: None,
                 share: Optional[budget.Share] = None) -> None:
        self.settings = settings
        self.tools = tools
        self.outcome = outcome
        self.progress = progress
        self.share = share or budget.unbounded()
        self._until = self.share.clock() + settings.seconds()

    def timeout(self, measurements: int = 1) -> float:
        """The seconds that a program with so many measurements may take. Errors: Absent if the run has no time left."""
        if self.share.spent():
            raise Absent(self.over())
        return self.share.timeout(measurements * self.settings.timeout)

    def over(self) -> str:
        return f"the {self.settings.whole():.0f} s of the whole run were over: give a longer --budget, or name fewer experiments"

    def add(self, *rows: Row) -> None:
        self.outcome.rows.extend(rows)

    def plot(self, *plots: Plot) -> None:
        self.outcome.plots.extend(plots)

    def formula(self, *formulas: Formula) -> None:
        self.outcome.formulas.extend(formulas)

    def lacks(self, words: str) -> None:
        """Reports that a part of the experiment is missing: which, why, and how to get it."""
        said = self.outcome.reason
        if said and words in said:
            return
        self.outcome.status, self.outcome.reason = "partial", f"{said}; {words}" if said else words

    def rounds(self, measurements: Mapping[str, Measure], default_rounds: int, quick_rounds: int = 2,
               baselines: Collection[str] = ()) -> None:
        """Runs all measurements in turn `--repeat` times, or until the experiment's time is up (`Budget`), and adds a row
        for each key. Each round begins with a different measurement.

        `measurements`: maps a series to the function that measures it; `baselines`: the series that Penstock is compared
        with. A measurement that fails twice is dropped and reported as missing.
        """
        measurements = {name: each for name, each in measurements.items() if self.settings.wants_series(name)}
        count = self.settings.repeat or (quick_rounds if self.settings.quick else default_rounds)
        gathered: Dict[Tuple[str, Key], List[float]] = {}
        failures: Dict[str, List[str]] = {name: [] for name in measurements}
        names = list(measurements)
        succeeded: Set[str] = set()
        longest = 0.0
        try:
            for number in range(count):
                begun = self.share.clock()
                if number and (begun > self._until or not self.share.fits(longest)):
                    break
                shift = number % max(len(names), 1)
                for place, name in enumerate(names[shift:] + names[:shift]):
                    self.progress(number * len(names) + place, count * len(names), name)
                    if len(failures[name]) == 2:
                        continue
                    failed = self._measure(name, measurements[name], gathered)
                    if failed:
                        failures[name].append(failed)
                    else:
                        succeeded.add(name)
                longest = max(longest, self.share.clock() - begun)
        finally:
            self._rows(gathered, baselines)
        self._say_failures(failures, succeeded)

    def _measure(self, name: str, measure: Measure, gathered: Dict[Tuple[str, Key], List[float]]) -> Optional[str]:
        """Runs one measurement. Returns the reason if it failed, else None."""
        try:
            self.timeout()
            for key, values in measure().items():
                series = key.series or name
                gathered.setdefault((series, key), []).extend([values] if isinstance(values, (int, float)) else values)
        except (Absent, Failed) as error:
            return str(error)
        return None

    def _say_failures(self, failures: Mapping[str, Sequence[str]], succeeded: Collection[str]) -> None:
        """Reports failed measurements, grouped by reason. A single failed round among good ones is not reported."""
        why: Dict[Tuple[str, str], List[str]] = {}
        for name, words in failures.items():
            if words and (len(words) == 2 or name not in succeeded):
                why.setdefault(("fewer rounds of {}" if name in succeeded else "without {}", words[-1]), []).append(name)
        for (what, reason), names in why.items():
            self.lacks(f"{what.format(', '.join(names))}: {reason}")

    def _rows(self, gathered: Mapping[Tuple[str, Key], List[float]], baselines: Collection[str]) -> None:
        for (series, key), values in gathered.items():
            if values and self.settings.wants_metric(key.metric):
                self.add(model.row(series, key.op, key.metric, values, bytes=key.bytes, group=key.group, procs=key.procs,
                                   wall=key.wall, serialized=key.serialized, baseline=series in baselines))


@dataclass(frozen=True)
class Experiment:
    """`title`, `about`, `source`, `emulated`: as in Outcome; `order`: the position in a `run` of all experiments."""

    name: str
    title: str
    about: str
    source: str
    emulated: str
    run: Callable[[Run], None]
    order: int = 100
    needs: str = ""  # in words, for `list`
    tags: Tuple[str, ...] = field(default=())

    def outcome(self) -> Outcome:
        return Outcome(self.title, self.about, self.source, self.emulated)


def registry() -> Dict[str, Experiment]:
    """All experiments, in their order."""
    from penstock.bench import experiments

    found = []
    for module in pkgutil.iter_modules(experiments.__path__):
        loaded = importlib.import_module(f"{experiments.__name__}.{module.name}")
        if hasattr(loaded, "EXPERIMENT"):
            found.append(loaded.EXPERIMENT)
    return {each.name: each for each in sorted(found, key=lambda one: (one.order, one.name))}
