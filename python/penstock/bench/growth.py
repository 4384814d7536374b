"""Fits a formula to counted figures: how a figure grows with the number of ranks.

    >>> fitted([(64, 640), (256, 2560), (1024, 10240)]).text
    '10 n'
    >>> fitted([(64, 18), (256, 24), (1024, 30)]).text
    '3 log2 n'
    >>> fitted([(2, 7), (8, 7), (32, 7)]).text
    '7'
    >>> fitted([(64, 1064), (256, 1256), (1024, 2024)]).text
    '1000 + n'
    >>> fitted([(64, 5)]) is None
    True
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Callable, List, Optional, Sequence, Tuple

Point = Tuple[float, float]  # ranks, figure

# The simplest first: among formulas that fit about equally well, the first wins.
SHAPES: List[Tuple[str, Callable[[float], float]]] = [
    ("log2 n", math.log2), ("n", lambda n: n), ("n log2 n", lambda n: n * math.log2(n)), ("n²", lambda n: n * n)]
GOOD = 0.03  # with an error this small, no better formula is sought


@dataclass(frozen=True)
class Fitted:
    """`text`: the formula in n, the number of ranks; `error`: the greatest relative error of a figure."""

    text: str
    error: float

    @property
    def said(self) -> str:
        return self.text if self.error < 0.005 else f"{self.text}, ± {self.error:.0%}"


def _number(value: float) -> str:
    if value == 0:
        return "0"
    rounded = float(f"{value:.3g}")
    return f"{rounded:.0f}" if abs(rounded) >= 100 or rounded == int(rounded) else f"{rounded:g}"


def _error(points: Sequence[Point], guess: Callable[[float], float]) -> float:
    return max(abs(guess(n) - value) / max(abs(value), 1e-9) for n, value in points)


def _text(least: float, slope: float, shape: str) -> str:
    factor = "" if _number(slope) == "1" else f"{_number(slope)} "
    return f"{factor}{shape}" if least == 0 else f"{_number(least)} + {factor}{shape}"


def _lines(points: Sequence[Point], shape: Callable[[float], float]) -> List[Tuple[float, float]]:
    """(least, slope) of the lines through the origin and through two points, by relative least squares."""
    weights = [1 / max(value * value, 1e-18) for _, value in points]
    xs = [shape(n) for n, _ in points]
    through = sum(w * x * v for w, x, (_, v) in zip(weights, xs, points)) / max(sum(w * x * x for w, x in zip(weights, xs)), 1e-300)
    total = sum(weights)
    mean_x = sum(w * x for w, x in zip(weights, xs)) / total
    mean_v = sum(w * v for w, (_, v) in zip(weights, points)) / total
    spread = sum(w * (x - mean_x) ** 2 for w, x in zip(weights, xs))
    found = [(0.0, through)]
    if len(points) > 2 and spread > 0:
        slope = sum(w * (x - mean_x) * (v - mean_v) for w, x, (_, v) in zip(weights, xs, points)) / spread
        if slope > 0 and mean_v - slope * mean_x > 0:
            found.append((mean_v - slope * mean_x, slope))
    return found


def fitted(points: Sequence[Point]) -> Optional[Fitted]:
    """The formula for the points; None for fewer than two."""
    if len({n for n, _ in points}) < 2:
        return None
    middle = sum(value for _, value in points) / len(points)
    best = Fitted(_number(middle), _error(points, lambda n: middle))
    for with_least in (False, True):
        for name, shape in SHAPES:
            for least, slope in _lines(points, shape):
                if (least != 0) is not with_least or best.error <= GOOD:
                    continue
                found = Fitted(_text(least, slope, name), _error(points, lambda n: least + slope * shape(n)))
                if found.error < best.error - 0.01:
                    best = found
    return best
