"""Two runs beside each other: what became better or worse by more than the rounds of a run differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Tuple

from penstock.bench.model import METRICS, Results, Row

LEAST_CHANGE = 0.05  # smaller ones are noise on every machine


@dataclass
class Change:
    """`times`: how many times better the second run is, below 1: worse. `beyond`: by more than both spreads."""

    experiment: str
    first: Row
    second: Row
    times: float
    beyond: bool


def changes(first: Results, second: Results) -> Tuple[List[Change], List[str]]:
    """All figures that both have, and in words what only one has. Published figures are left out."""
    found: List[Change] = []
    notes: List[str] = []
    for name, outcome in first.experiments.items():
        if name not in second.experiments:
            notes.append(f"{name}: only the first run has it")
            continue
        others = {row.key(): row for row in second.experiments[name].rows}
        alone = 0
        for row in outcome.rows:
            other = others.get(row.key())
            if other is None:
                alone += 1
            elif not row.theirs and METRICS.get(row.metric, ("", None))[1] is not None and (row.wall and other.wall
                                                                                           or not _is_time(row)):
                found.append(_change(name, row, other))
        if alone:
            notes.append(f"{name}: {alone} figures are of the first run only")
    notes += [f"{name}: only the second run has it" for name in second.experiments if name not in first.experiments]
    return found, notes


def _is_time(row: Row) -> bool:
    return row.metric in ("latency_us", "time_us", "bandwidth_MBps", "rate_per_s")


def _change(name: str, first: Row, second: Row) -> Change:
    less = METRICS[first.metric][1]
    if not first.median or not second.median:
        return Change(name, first, second, 1.0 if first.median == second.median else 0.0, first.median != second.median)
    times = first.median / second.median if less else second.median / first.median
    noise = max(first.spread, second.spread, LEAST_CHANGE)
    return Change(name, first, second, times, times > 1 + noise or times < 1 / (1 + noise))


def differences(first: Results, second: Results) -> List[str]:
    """Facts of the machines that differ: figures of two machines say little about the code."""
    ignored = {"load at the start", "hypervisor steal"}
    names: Dict[str, None] = dict.fromkeys([*first.machine, *second.machine])
    return [f"{name}: {first.machine.get(name)} / {second.machine.get(name)}" for name in names
            if name not in ignored and first.machine.get(name) != second.machine.get(name)]
