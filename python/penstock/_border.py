"""Checks arguments that pass from Python to C, since ctypes alone truncates integers and strings. Each check takes an
argument's name and value, and returns the value for C. Errors: InvalidArgumentError; TypeError for a value of another
type."""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Callable
from typing import Any, Optional

from penstock.errors import InvalidArgumentError

LONGEST_NS = (1 << 63) - 1


def integer(low: int, high: int) -> Callable[[str, Any], int]:
    def checked(name: str, value: Any) -> int:
        if type(value) is int and low <= value <= high:
            return value
        try:
            number = operator.index(value)  # accepts integers of NumPy too
        except TypeError:
            raise TypeError(f"{name} is {value!r}: an integer is needed") from None
        if not low <= number <= high:
            raise InvalidArgumentError(f"{name} is {number}: {low} to {high} is possible")
        return number

    return checked


def text(name: str, value: Any) -> bytes:
    """The string for C. Bytes that are not UTF-8, as os.fsdecode() represents them, become the original bytes again."""
    if not isinstance(value, str):
        raise TypeError(f"{name} is {value!r}: a string is needed")
    if "\0" in value:
        raise InvalidArgumentError(f"{name} is {value!r}: a NUL would end it")
    try:
        return value.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise InvalidArgumentError(f"{name} is {value!r}: {error.reason}") from None


def text_or_none(name: str, value: Any) -> Optional[bytes]:
    return None if value is None else text(name, value)


def nanoseconds(name: str, value: Any) -> int:
    """Converts seconds to nanoseconds. None means the library's default, which is 0 in C."""
    if value is None:
        return 0
    # float first: that check is faster. NumPy's timedelta64, a number by its class, has a unit of its own.
    if not isinstance(value, (float, numbers.Real)) or getattr(getattr(value, "dtype", None), "kind", "f") == "m":
        raise TypeError(f"{name} is {value!r}: a number of seconds is needed")
    try:
        seconds = float(value)
    except OverflowError:  # a very large integer
        seconds = math.inf if value > 0 else -math.inf
    if not seconds >= 0:  # also NaN
        raise InvalidArgumentError(f"a {name} of {value} s: 0 or more is needed")
    return LONGEST_NS if seconds >= LONGEST_NS // 10**9 else max(1, round(seconds * 1e9))


u32 = integer(0, (1 << 32) - 1)
i32 = integer(-(1 << 31), (1 << 31) - 1)
size = integer(0, (1 << 64) - 1)
