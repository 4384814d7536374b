"""Handles of the library: their owners, and when they are given back."""

from __future__ import annotations

import ctypes
import os
from typing import Any, NoReturn, Optional

from penstock._library import call, function_of
from penstock.errors import InvalidArgumentError


class Owned:
    """A handle of the library: given back with the last reference to it, or by the library when the process
    ends; memory stays mapped then. `needs`: a handle that must be given back after it."""

    def __init__(self, handle: ctypes.c_void_p, close: str, needs: Optional[Owned]) -> None:
        self._as_parameter_ = handle
        self._close = function_of(close)
        self.needs = needs
        self.process = os.getpid()

    def __del__(self) -> None:
        self._close(self._as_parameter_)  # changes nothing in a forked child

    def __reduce__(self) -> NoReturn:
        raise TypeError("handles of a pool cannot be pickled: they are addresses in this process; attach to the pool in "
                        "the other one, and open the object by its name")


def made(by: str, *arguments: Any, close: str, needs: Optional[Owned] = None) -> Owned:
    """The handle that a function makes as its last argument."""
    place = ctypes.c_void_p()
    try:
        call(by, *arguments, ctypes.byref(place))
    except BaseException:
        if place:  # a signal's handler raised an error after the handle was made
            Owned(place, close, needs)
        raise
    return Owned(place, close, needs)


class Handle:
    """The base of pools, objects and their parts. `what` names it in errors."""

    def __init__(self, owned: Owned, what: str) -> None:
        self._what = what
        self._owned: Optional[Owned] = owned

    @property
    def _open(self) -> Owned:
        owned = self._owned
        if owned is None:
            raise InvalidArgumentError(f"{self._what} is closed")
        if owned.process != os.getpid():
            raise InvalidArgumentError(f"{self._what} belongs to process {owned.process}, which this one was forked from: "
                                       "a child must attach to the pool and open what it needs itself")
        return owned

    @property
    def _usable(self) -> bool:
        return self._owned is not None and self._owned.process == os.getpid()

    def close(self) -> None:
        """A second time changes nothing, nor does it in a child of os.fork()."""
        self._owned = None


class Waiting(Handle):
    """A handle in which threads wait."""

    def __init__(self, owned: Owned, kind: str) -> None:
        super().__init__(owned, f"the {kind}")
        self._cancel = f"{kind}_cancel"

    def close(self) -> None:
        """Ends the waits of other threads. A second time changes nothing, nor does it in a child of os.fork()."""
        owned, self._owned = self._owned, None
        if owned is not None and owned.process == os.getpid():
            call(self._cancel, owned)
