"""Shares the time of a run among its experiments, so that `make bench` ends in ten minutes on any machine.

Each experiment gets an equal share of the time left when it begins; later experiments get the time that it does not
use. A round is not begun if, judged by the longest earlier round, it would not end within the share. The first round of
an experiment always begins while the run has time left. No program runs past the end of the run.

    >>> now = [0.0]
    >>> budget = Budget(100, 2, clock=lambda: now[0])
    >>> share = budget.share()
    >>> share.fits(40), share.fits(60)  # seconds
    (True, False)
    >>> now[0] = 90
    >>> share.fits(1), share.timeout(120)
    (False, 10.0)
    >>> budget.share().fits(10)
    True
"""

from __future__ import annotations

import math
import time
from typing import Callable

DEFAULT = 540.0  # seconds; one of the ten minutes is for the build and the page
Clock = Callable[[], float]


class Share:
    """The time of one experiment. `until`: when it should be done; `end`: the end of the whole run."""

    def __init__(self, until: float, end: float, clock: Clock) -> None:
        self.until, self.end, self.clock = until, end, clock

    def fits(self, seconds: float) -> bool:
        """True if a round that takes so long may begin."""
        return self.clock() + seconds <= self.until

    def spent(self) -> bool:
        """True if the run has no time left."""
        return self.clock() >= self.end

    def timeout(self, most: float) -> float:
        """The seconds that a program may take: `most`, but no more than the run has left."""
        return max(0.0, min(most, self.end - self.clock()))


class Budget:
    """Divides `seconds` among a number of experiments; math.inf: no limit."""

    def __init__(self, seconds: float, experiments: int, clock: Clock = time.monotonic) -> None:
        self.seconds, self.clock = seconds, clock
        self.end = clock() + seconds
        self.waiting = experiments

    def share(self) -> Share:
        """The share of the next experiment."""
        left = max(0.0, self.end - self.clock())
        share = left / max(1, self.waiting)
        self.waiting -= 1
        return Share(self.clock() + share, self.end, self.clock)


def unbounded() -> Share:
    return Share(math.inf, math.inf, time.monotonic)
