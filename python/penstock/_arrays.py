"""Arrays in the memory of a pool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from penstock._border import size
from penstock._handles import Owned
from penstock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import NDArray


class View:
    """A range of an object's bytes. An array keeps this view alive, and the view keeps the object's memory mapped."""

    def __init__(self, owned: Owned, data: int, bytes: int) -> None:
        self.owned = owned
        self.__array_interface__ = {"version": 3, "data": (data, False), "shape": (bytes,), "typestr": "|u1"}


def checked_kind(kind: np.dtype[Any]) -> np.dtype[Any]:
    if kind.hasobject or kind.itemsize == 0:
        raise InvalidArgumentError(f"type {kind} cannot lie in a pool: its elements are Python objects, or have no size")
    return kind


def sizes_of(shape: Any) -> tuple[int, ...]:
    try:
        return (size("the shape", shape),)
    except TypeError:
        pass
    try:
        return tuple(size("a size of the shape", each) for each in shape)
    except TypeError:
        raise TypeError(f"the shape is {shape!r}: an integer or a sequence of them is needed") from None


def bounds(array: NDArray[Any]) -> tuple[int, int]:
    """The addresses of the first byte and of one past the last byte of the array's elements."""
    first = int(array.__array_interface__["data"][0])
    end = first + array.itemsize
    for count, stride in zip(array.shape, array.strides):
        if count == 0:
            return first, first
        end += max(0, (count - 1) * stride)
        first += min(0, (count - 1) * stride)
    return first, end


def object_of(array: NDArray[Any]) -> Owned:
    """The handle of the object that contains the array's memory."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if not isinstance(base, View):
        raise InvalidArgumentError("the array does not lie in a pool: transactions take arrays of Object.array() and "
                                   "their slices, not copies")
    return base.owned
