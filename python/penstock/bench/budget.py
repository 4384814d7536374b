"""The time of a whole run, shared among its experiments: `make bench` is done in ten minutes wherever it runs.

Each experiment has an equal share of what is left when it begins; what it does not use is of those behind it. A round
that would not end within the share, by the longest round before it, is not begun. The first round of an experiment
is, as long as the run has time, and no program runs past the end of the run's.

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

DEFAULT = 540.0  # seconds: of ten minutes, one is for the build and the page
Clock = Callable[[], float]


class Share:
    """An experiment's: `until` it should be done, `end` is the whole run's."""

    def __init__(self, until: float, end: float, clock: Clock) -> None:
        self.until, self.end, self.clock = until, end, clock

    def fits(self, seconds: float) -> bool:
        """May a round begin that takes so long?"""
        return self.clock() + seconds <= self.until

    def spent(self) -> bool:
        """Has the run no time left for anything?"""
        return self.clock() >= self.end

    def timeout(self, most: float) -> float:
        """Seconds that a program may take: `most`, and no more than the run has left."""
        return max(0.0, min(most, self.end - self.clock()))


class Budget:
    """`seconds` for so many experiments; math.inf: no bound."""

    def __init__(self, seconds: float, experiments: int, clock: Clock = time.monotonic) -> None:
        self.seconds, self.clock = seconds, clock
        self.end = clock() + seconds
        self.waiting = experiments

    def share(self) -> Share:
        """Of the next experiment."""
        left = max(0.0, self.end - self.clock())
        share = left / max(1, self.waiting)
        self.waiting -= 1
        return Share(self.clock() + share, self.end, self.clock)


def unbounded() -> Share:
    return Share(math.inf, math.inf, time.monotonic)
