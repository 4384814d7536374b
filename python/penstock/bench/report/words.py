"""Formats numbers, sizes and ratios for people."""

from __future__ import annotations

import math
from typing import Iterable, Optional

NONE = "–"


def finite(value: object) -> Optional[float]:
    """A number that can be compared and drawn, or None.

    >>> finite(2), finite(float("nan")), finite("2"), finite(True)
    (2.0, None, None, None)
    """
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def number(value: Optional[float]) -> str:
    """Three significant digits, no exponent where people would not write one.

    >>> [number(each) for each in (0.0, 0.01234, 0.5, 12.34, 8600.4, 1234567.0, 4e-7, 2.5e12, None)]
    ['0', '0.0123', '0.500', '12.3', '8,600', '1,234,567', '4.00e-07', '2.50e+12', '–']
    """
    if value is None or not math.isfinite(value):
        return NONE
    size = abs(value)
    if size == 0:
        return "0"
    if size < 1e-3 or size >= 1e10:
        return f"{value:.2e}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(size)))}f}"


def ratio(value: float) -> str:
    """A ratio as a multiple.

    >>> ratio(15.04), ratio(0.756), ratio(1234.0), ratio(0.0004)
    ('15×', '0.76×', '1,234×', '0.0004×')
    """
    if value < 0.01:
        return f"{value:.1g}×"
    if value < 1:
        return f"{value:.2f}×"
    return f"{value:.1f}×" if value < 9.95 else f"{value:,.0f}×"


def size(count: Optional[int]) -> str:
    """A message size, in powers of two as in OSU's programs.

    >>> [size(each) for each in (0, 8, 1536, 65536, 8 << 20, 3 << 30, None)]
    ['0 B', '8 B', '1.5 KB', '64 KB', '8 MB', '3 GB', '–']
    """
    if count is None:
        return NONE
    for bits, unit in ((30, "GB"), (20, "MB"), (10, "KB")):
        if count >= 1 << bits:
            return f"{count / (1 << bits):.4g} {unit}"
    return f"{count} B"


def seconds(value: Optional[float]) -> str:
    """
    >>> seconds(0.42), seconds(59.6), seconds(125), seconds(7300), seconds(None)
    ('0.4 s', '60 s', '2 min 5 s', '2 h 1 min', '–')
    """
    if value is None:
        return NONE
    if value < 10:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 120:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60} min"


def count(number_of: int, one: str, many: Optional[str] = None) -> str:
    """
    >>> count(1, "rank"), count(2, "rank"), count(0, "copy", "copies")
    ('1 rank', '2 ranks', '0 copies')
    """
    return f"{number_of:,} {one if number_of == 1 else many or one + 's'}"


def listed(parts: Iterable[str], last: str = "and") -> str:
    """
    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    found = list(parts)
    return f" {last} ".join([", ".join(found[:-1]), found[-1]]) if len(found) > 1 else "".join(found)


def between(low: float, high: float) -> str:
    """A range of ratios.

    >>> between(1.31, 15.0), between(2.0, 2.01)
    ('1.3–15×', '2.0×')
    """
    first, second = ratio(low), ratio(high)
    return second if first == second else f"{first[:-1]}–{second}"


def short(text: str, most: int) -> str:
    """
    >>> short("a very long name", 8)
    'a very …'
    """
    return text if len(text) <= most else text[:most - 1] + "…"
