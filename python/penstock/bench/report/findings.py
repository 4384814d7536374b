"""Sentences derived from the data: ratios to baselines, distance to the raw limit, CPU time, the model of a real device.

Each sentence uses figures of this run only. Missing figures are left out, or reported as missing (`LACKING`). Times with
more ranks than cores are never used.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Dict, Iterator, List, Optional, Sequence, Tuple

from penstock.bench.published import ACCESS_SOURCE, ACCESS_US
from penstock.bench.report import words
from penstock.bench.report.data import (COUNTED, TIMES, Experiment, Figure, Place, Report, Subject, alike, beyond_spread, by_place,
                                        less_is_better, order, subjects, times_better)

RATIO, LIMIT, CPU, MODEL = "ratio", "limit", "cpu", "model"
HEADINGS = {RATIO: "Against the baselines", LIMIT: "Distance to the raw limit", CPU: "CPU time", MODEL: "On a real device"}
LACKING = {
    RATIO: "No ratio can be given: no experiment of this run holds Penstock and a baseline at the same operation and size.",
    LIMIT: "No distance to the raw limit can be given: this run holds none beside a figure of Penstock.",
    CPU: "CPU time for each GB was not measured in this run.",
    MODEL: "Nothing can be said of a real device: this run holds no counts of serialized accesses.",
}
BEATEN = (" Where that is better than the limit, the two sides' work overlaps, or stays in caches that the bare way goes past.")
FEW = 3  # up to this number each subject gets its own sentence; more are summarized
_UNITS = {"latency_us": " µs", "time_us": " µs", "model_us": " µs", "bandwidth_MBps": " MB/s", "rate_per_s": " a second", "cpu_us": " µs"}
_NOUNS = {"latency_us": "latency", "time_us": "time", "bandwidth_MBps": "bandwidth", "rate_per_s": "rate",
          "cpu_us": "CPU time of a call", "cpu_s_per_GB": "CPU time for each GB", "accesses": "count of device accesses",
          "bytes_device": "device traffic", "bytes_socket": "socket traffic", "lines_flushed": "count of flushed lines",
          "copies": "count of copies", "messages": "count of messages", "bytes_pool": "traffic by messages",
          "looks_in_vain": "count of vain looks", "model_us": "modelled time", "growth": "modelled growth",
          "bytes_up": "traffic to the device", "bytes_down": "traffic from the device", "packets": "count of packets",
          "bytes_reduced": "count of bytes reduced", "cpu_s": "CPU time", "pool_MB": "space in the pool",
          "private_MB": "own memory", "reads_most": "count of lines read by one rank", "writes_most": "count of lines written by one rank",
          "reads_rank": "count of lines read", "writes_rank": "count of lines written", "reads_per_s": "rate of lines read"}


@dataclass(frozen=True)
class Finding:
    kind: str
    experiment: str
    text: str


@dataclass(frozen=True)
class Pair:
    """One figure of ours and the other's at the same size and number of processes."""

    subject: Subject
    place: Place
    ours: Figure
    other: Figure
    times: float

    @property
    def even(self) -> bool:
        return not beyond_spread(self.ours, self.other)


def noun(metric: str) -> str:
    return _NOUNS.get(metric, metric)


def pairs(subject: Subject, ours: Dict[Place, Figure], other: Dict[Place, Figure]) -> List[Pair]:
    found = []
    for place in sorted(ours.keys() & other.keys(), key=order):
        times = times_better(ours[place], other[place])
        if times is not None:
            found.append(Pair(subject, place, ours[place], other[place], times))
    return found


def _compared(experiment: Experiment, limit: bool) -> Iterator[Tuple[str, str, List[Pair]]]:
    """(our series, the other series, pairs of figures) of each subject, in order."""
    for subject, figures in subjects(experiment.figures).items():
        series = by_place(figures)
        own = [name for name, places in series.items() if all(each.ours for each in places.values())]
        others = [name for name, places in series.items()
                  if all(each.limit if limit else each.base for each in places.values())]
        for name in own:
            for other in others:
                found = pairs(subject, series[name], series[other]) if alike(name, other) else []
                if found:
                    yield name, other, found


def _better_word(metric: str) -> Tuple[str, str]:
    return ("lower", "higher") if less_is_better(metric) else ("higher", "lower")


def _against(found: Sequence[Tuple[str, Pair]]) -> str:
    """The comparison in words, such as '14× lower than TCP, 1.3× than shm; 1.2× higher than …'."""
    better, worse = _better_word(found[0][1].subject.metric)
    parts = []
    for word, chosen in ((better, [each for each in found if each[1].times > 1 and not each[1].even]),
                         (worse, [each for each in found if each[1].times < 1 and not each[1].even])):
        said = [f"{words.ratio(max(pair.times, 1 / pair.times))} {'' if place else word + ' '}than {other}"
                for place, (other, pair) in enumerate(chosen)]
        parts += [", ".join(said)] if said else []
    even = [other for other, pair in found if pair.even]
    parts += [f"within the spread of {words.listed(even)}"] if even else []
    return "; ".join(parts)


def named(subject: Subject) -> str:
    """Group and operation, without words that repeat the metric: 'lock and unlock, put' for 'put latency'."""
    op = "" if noun(subject.metric).startswith(subject.op) else subject.op.removesuffix(" " + noun(subject.metric))
    return ", ".join(part for part in (subject.group, op) if part)


Compared = List[Tuple[str, str, List[Pair]]]


def _each(compared: Compared) -> Iterator[str]:
    """A sentence per subject and series of ours, at the smallest and largest size with the fewest processes."""
    gathered: Dict[Tuple[Subject, str], Dict[Place, List[Tuple[str, Pair]]]] = {}
    for ours, other, found in compared:
        for pair in found:
            gathered.setdefault((pair.subject, ours), {}).setdefault(pair.place, []).append((other, pair))
    for (subject, ours), places in gathered.items():
        fewest = [place for place in sorted(places, key=order) if place[1] == min(places, key=order)[1]]
        said = []
        for place in fewest[:1] + fewest[1:][-1:]:
            at = "" if place[0] is None else f"{words.size(place[0])}: "
            value = places[place][0][1].ours.median
            said.append(f"{at}{words.number(value)}{_UNITS.get(subject.metric, '')}, {_against(places[place])}")
        procs = "" if fewest[0][1] is None else f" ({words.count(fewest[0][1], 'process', 'processes')})"
        head = named(subject)
        yield f"{head + ', ' if head else ''}{noun(subject.metric)} of {ours}{procs}. {'. '.join(said)}."


def _together(compared: Compared) -> Iterator[str]:
    """A sentence per metric, series of ours and baseline, over all operations and sizes."""
    gathered: Dict[Tuple[str, str, str], List[Pair]] = {}
    for ours, other, found in compared:
        gathered.setdefault((found[0].subject.metric, ours, other), []).extend(found)
    for (metric, ours, other), found in gathered.items():
        most, least = max(found, key=lambda pair: pair.times), min(found, key=lambda pair: pair.times)
        ahead = sum(pair.times > 1 and not pair.even for pair in found)
        behind = sum(pair.times < 1 and not pair.even for pair in found)
        even = len(found) - ahead - behind
        better, worse = _better_word(metric)
        operations = len({pair.subject for pair in found})
        yield (f"{ours} against {other}, {noun(metric)} in {words.count(len(found), 'case')} of "
               f"{words.count(operations, 'operation')}: {better} in {ahead}, {worse} in {behind}"
               f"{f', within the spread in {even}' if even else ''}. Median {_sided(metric, statistics.median(pair.times for pair in found))}, "
               f"at best {_sided(metric, most.times)} ({_case(most)}), at worst {_sided(metric, least.times)} ({_case(least)}).")


def _sided(metric: str, times: float) -> str:
    better, worse = _better_word(metric)
    said = words.ratio(max(times, 1 / times))
    return "even" if said == "1.0×" else f"{said} {better if times >= 1 else worse}"


def _case(pair: Pair) -> str:
    parts = [named(pair.subject), "" if pair.place[0] is None else words.size(pair.place[0])]
    return ", ".join(part for part in parts if part) or noun(pair.subject.metric)


def ratios(experiment: Experiment) -> List[Finding]:
    """Ratios to baselines: one sentence per operation if they are few, otherwise a summary."""
    by_metric: Dict[str, Compared] = {}
    for ours, other, found in _compared(experiment, limit=False):
        if found[0].subject.metric != "cpu_s_per_GB":
            by_metric.setdefault(found[0].subject.metric, []).append((ours, other, found))
    sentences = []
    for compared in by_metric.values():
        few = len({found[0].subject for _, _, found in compared}) <= FEW
        sentences += [Finding(RATIO, experiment.name, text) for text in (_each if few else _together)(compared)]
    return sentences


def limits(experiment: Experiment) -> List[Finding]:
    """How far our figures are from the raw limit."""
    gathered: Dict[Tuple[str, str, str], List[Pair]] = {}
    for ours, other, found in _compared(experiment, limit=True):
        gathered.setdefault((found[0].subject.metric, ours, other), []).extend(found)
    sentences = []
    for (metric, ours, other), found in gathered.items():
        most, least = max(found, key=lambda pair: pair.times), min(found, key=lambda pair: pair.times)
        if less_is_better(metric):
            said = (f"has {words.between(1 / most.times, 1 / least.times)} the {noun(metric)} of “{other}”: "
                    f"nearest at {words.ratio(1 / most.times)} ({_case(most)}), farthest at {words.ratio(1 / least.times)} ({_case(least)})")
        else:
            share = f"{least.times * 100:.0f}" if len(found) == 1 else f"{least.times * 100:.0f} to {most.times * 100:.0f}"
            said = f"reaches {share} % of the {noun(metric)} of “{other}”, most at {_case(most)}"
        beaten = "" if all(pair.times <= 1 or pair.even for pair in found) else BEATEN
        sentences.append(Finding(LIMIT, experiment.name, f"{ours} {said}.{beaten}"))
    return sentences


def cpu(experiment: Experiment) -> List[Finding]:
    """CPU-seconds per GB at the largest size that all series have. Valid also with more ranks than cores."""
    sentences = []
    for subject, figures in subjects(experiment.figures).items():
        if subject.metric != "cpu_s_per_GB":
            continue
        series = {name: places for name, places in by_place([each for each in figures if not each.theirs]).items()}
        common = set.intersection(*(set(places) for places in series.values())) if series else set()
        common = {place for place in common if all(places[place].median is not None for places in series.values())}
        own = [name for name, places in series.items() if any(each.ours for each in places.values())]
        if not common or not own:
            continue
        place = max(common, key=lambda each: (-1 if each[0] is None else each[0], -(each[1] or 0)))
        costs = [f"{name} {words.number(places[place].median)}" for name, places in series.items()]
        moved = "" if place[0] is None else f" in messages of {words.size(place[0])}"
        with_ = "" if place[1] is None else f", {words.count(place[1], 'process', 'processes')}"
        head = named(subject)
        sentences.append(Finding(CPU, experiment.name, f"{head + ': ' if head else ''}CPU-seconds to move 1 GB{moved}{with_}: "
                                                       f"{words.listed(costs)}."))
    return sentences


def model(experiment: Experiment) -> List[Finding]:
    """Serialized accesses x the published access latency, at the smallest size of each operation."""
    makers: Dict[Tuple[str, float], List[str]] = {}
    for subject, figures in subjects(experiment.figures).items():
        for name, places in by_place(figures).items():
            counted = [places[place] for place in sorted(places, key=order) if places[place].real_us]
            if counted and subject.metric in TIMES:
                size = "" if counted[0].bytes is None else f" of {words.size(counted[0].bytes)}"
                what = f"{named(subject) or noun(subject.metric)}{size}"
                makers.setdefault((what, counted[0].serialized or 0), []).append(name)
    sentences = []
    for (what, accesses), names in makers.items():
        accessed = "1 device access" if accesses == 1 else f"{accesses:g} device accesses one after another"
        low, high = (words.number(accesses * each) for each in ACCESS_US)
        sentences.append(Finding(MODEL, experiment.name, f"{what}: {accessed} ({'; '.join(names)}). At {ACCESS_US[0]} to {ACCESS_US[1]} µs "
                                                         f"each ({ACCESS_SOURCE}) that alone takes {low} to {high} µs."))
    return sentences


def of_experiment(experiment: Experiment) -> List[Finding]:
    return [*ratios(experiment), *limits(experiment), *cpu(experiment), *model(experiment)]


def oversubscribed(report: Report) -> Optional[str]:
    """A note on times with more ranks than cores, if there are any."""
    count = sum(not figure.comparable for each in report.experiments for figure in each.figures)
    if not count:
        return None
    return (f"{words.count(count, 'time was', 'times were')} measured with more ranks than cores. They show the scheduler and "
            "enter no ratio; CPU time, bytes and device accesses of the same runs do.")


def single_rounds(report: Report) -> Optional[str]:
    """A note on figures without a spread, if there are any."""
    measured = [each for experiment in report.experiments for each in experiment.figures
                if not each.theirs and each.metric not in COUNTED]
    single = sum(each.rounds == 1 for each in measured)
    if not single:
        return None
    return (f"{single:,} of {words.count(len(measured), 'figure')} rest on a single round. Their spread is not known: a ratio "
            "of them may be chance.")


@dataclass(frozen=True)
class Highlight:
    """A figure for the top of the page, its description, and where it was measured."""

    value: str
    words: str
    where: str


def highlights(report: Report) -> List[Highlight]:
    """At most four figures of several rounds: the smallest message against each TCP, the largest against the raw limit."""
    found: List[Highlight] = []
    for experiment in report.experiments:
        if experiment.name not in ("pt2pt", "rma"):
            continue
        against: Dict[str, Tuple[str, Pair]] = {}
        largest: List[Tuple[str, str, Pair]] = []
        for ours, other, both in _compared(experiment, limit=False):
            if both[0].subject.metric == "latency_us" and both[0].other.tcp and not both[0].even and _of_rounds(both[0]):
                against.setdefault(other, (ours, both[0]))  # same mode and operation
        for ours, other, both in _compared(experiment, limit=True):
            last = max(both, key=lambda pair: pair.place[0] or 0)
            if last.subject.metric == "bandwidth_MBps" and _of_rounds(last):
                largest.append((ours, other, last))
        for other, (ours, pair) in against.items():
            side = _better_word("latency_us")[0 if pair.times > 1 else 1]
            found.append(Highlight(words.ratio(max(pair.times, 1 / pair.times)), f"{side} latency than {other}",
                                   f"{experiment.title}, {_case(pair)}, {ours}"))
        if largest:
            ours, other, pair = max((each for each in largest if each[0] == largest[0][0]), key=lambda each: each[2].times)
            found.append(Highlight(f"{pair.times * 100:.0f} %", f"of the bandwidth of “{other}”",
                                   f"{experiment.title}, {_case(pair)}, {ours}"))
    return found[:4]


def _of_rounds(pair: Pair) -> bool:
    return 1 not in (pair.ours.rounds, pair.other.rounds)


assert set(TIMES) <= set(_NOUNS)
