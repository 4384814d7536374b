"""The message size from which on TCP is faster, for each operation and number of processes: cMPI's most useful figure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence

from penstock.bench import published
from penstock.bench.report import words
from penstock.bench.report.data import Experiment, Figure, Place, Report, Subject, alike, by_place, subjects
from penstock.bench.report.findings import Pair, pairs

LACKING = ("No crossover can be computed: no experiment of this run holds Penstock and TCP at two sizes or more, with no more "
           "ranks than cores.")


@dataclass(frozen=True)
class Crossover:
    """`size`: where both are about equal; None if TCP wins at no size, at every size, or irregularly: `text` says which."""

    experiment: Experiment
    subject: Subject
    procs: Optional[int]
    ours: str
    other: str
    size: Optional[int]
    text: str

    @property
    def brief(self) -> str:
        """The text without the two sizes around the crossover."""
        return self.text.split(" (")[0]

    @property
    def published(self) -> str:
        """The paper's statement on this crossover, or ""."""
        return "; ".join(f"{each.words} ({each.source})" for each in published.crossovers()
                         if each.experiment == self.experiment.name and each.metric == self.subject.metric
                         and published.fits_words(each.op, self.subject.op, self.subject.group))


def _even_size(before: Pair, after: Pair) -> int:
    """The size at which the ratio is 1, interpolated between two sizes on logarithmic axes, to two significant digits."""
    low, high = before.place[0] or 0, after.place[0] or 0
    if low <= 0:
        return high
    slope = math.log(before.times) - math.log(after.times)
    share = math.log(before.times) / slope if slope > 0 else 0.5
    found = math.exp(math.log(low) + min(max(share, 0), 1) * (math.log(high) - math.log(low)))
    unit = 1 << (10 * (int(math.log2(found)) // 10))
    digits = 1 - math.floor(math.log10(found / unit))
    return int(round(found / unit, digits) * unit)


def judged(found: Sequence[Pair]) -> "tuple[Optional[int], str]":
    """The crossover size and its description, for pairs sorted by size."""
    span = f"{words.size(found[0].place[0])} to {words.size(found[-1].place[0])}"
    lost = [pair for pair in found if pair.times < 1 and not pair.even]
    won = [pair for pair in found if pair.times > 1 and not pair.even]
    if not lost:
        return None, f"at no size measured ({span})"
    if not won:
        return None, f"at every size measured that decides ({span})"
    before, after = won[-1], lost[0]
    if (before.place[0] or 0) < (after.place[0] or 0):
        size = _even_size(before, after)
        return size, f"above about {words.size(size)} (between {words.size(before.place[0])} and {words.size(after.place[0])})"
    return None, f"at {words.listed(words.size(pair.place[0]) for pair in lost)}, not at the other sizes ({span})"


def _of_subject(experiment: Experiment, subject: Subject, figures: Sequence[Figure]) -> List[Crossover]:
    found = []
    series: Dict[str, Dict[Place, Figure]] = by_place(figures)
    own = [name for name, places in series.items() if all(each.ours for each in places.values())]
    tcp = [name for name, places in series.items() if all(each.tcp and not each.theirs for each in places.values())]
    for ours in own:
        for other in tcp:
            both = [pair for pair in pairs(subject, series[ours], series[other]) if pair.place[0] is not None and alike(ours, other)]
            for procs in sorted({pair.place[1] for pair in both}, key=lambda each: each or 0):
                own_procs = [pair for pair in both if pair.place[1] == procs]
                if len(own_procs) >= 2:
                    found.append(Crossover(experiment, subject, procs, ours, other, *judged(own_procs)))
    return found


def of_experiment(experiment: Experiment) -> List[Crossover]:
    found = []
    for subject, figures in subjects(experiment.figures).items():
        if subject.metric in ("latency_us", "time_us", "bandwidth_MBps"):
            found += _of_subject(experiment, subject, figures)
    return found


def of_report(report: Report) -> List[Crossover]:
    return [each for experiment in report.experiments for each in of_experiment(experiment)]
