"""Parses and formats sizes."""

from __future__ import annotations

import re
from typing import Sequence, Tuple

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
MOST = 1 << 34


def parse(text: str) -> int:
    """Parses a size; returns bytes.

    >>> parse("8"), parse("64K"), parse("1MiB"), parse("4 KB")
    (8, 65536, 1048576, 4096)
    >>> parse("eight")
    Traceback (most recent call last):
    ValueError: 'eight' is no size: give bytes, or a number with K, M or G, such as 64K
    """
    found = re.fullmatch(r"(\d+)\s*([KMG]?)(?:i?B)?", text.strip(), re.IGNORECASE)
    if not found:
        raise ValueError(f"'{text}' is no size: give bytes, or a number with K, M or G, such as 64K")
    number = int(found[1]) * _UNITS[found[2].upper()]
    if not 1 <= number <= MOST:
        raise ValueError(f"'{text}' is out of range: sizes are from 1 byte to {said(MOST)}")
    return number


def parse_list(texts: Sequence[str]) -> Tuple[int, ...]:
    """
    >>> parse_list(["8,4K", "1M"])
    (8, 4096, 1048576)
    """
    found = [parse(word) for text in texts for word in text.split(",") if word.strip()]
    if not found:
        raise ValueError("no size is named: give bytes, such as 8,4K,1M")
    return tuple(dict.fromkeys(found))


def said(size: int) -> str:
    """
    >>> said(8), said(65536), said(1 << 20), said(100)
    ('8 B', '64 KB', '1 MB', '100 B')
    """
    for unit, suffix in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {suffix}"
    return f"{size} B"
