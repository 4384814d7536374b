"""Handles of the library: their owners, and when they are released."""

from __future__ import annotations

import ctypes
import os
from typing import Any, NoReturn, Optional

from penstock._library import call, function_of
from penstock.errors import InvalidArgumentError


class Owned:
    """A handle of the library. It is released with the last reference to it, or by the library when the process
    ends; in that case memory stays mapped. `needs`: a handle that must be released after this one."""

    def __init__(self, handle: ctypes.c_void_p, close: str, needs: Optional[Owned]) -> None:
        self._as_parameter_ = handle
        self._close = function_of(close)
        self.needs = needs
        self.process = os.getpid()

    def __del__(self) -> None:
        self._close(self._as_parameter_)  # does nothing in a forked child

    def __reduce__(self) -> NoReturn:
        raise TypeError("handles of a pool cannot be pickled: they are addresses in this process; attach to the pool in "
                        "the other one, and open the object by its name")


def made(by: str, *arguments: Any, close: str, needs: Optional[Owned] = None) -> Owned:
    """Calls a function that stores a new handle at its last argument, and returns that handle."""
    place = ctypes.c_void_p()
    try:
        call(by, *arguments, ctypes.byref(place))
    except BaseException:
        if place:  # a signal handler raised an error after the handle was made
            Owned(place, close, needs)
        raise
    return Owned(place, close, needs)


class Handle:
    """The base class of pools, objects and their parts. `what` names it in errors."""

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
        """Closes the handle. Does nothing the second time, or in a child of os.fork()."""
        self._owned = None


class Waiting(Handle):
    """A handle on which threads wait."""

    def __init__(self, owned: Owned, kind: str) -> None:
        super().__init__(owned, f"the {kind}")
        self._cancel = f"{kind}_cancel"

    def close(self) -> None:
        """Closes the handle and ends waits of other threads. Does nothing the second time, or in a child of os.fork()."""
        owned, self._owned = self._owned, None
        if owned is not None and owned.process == os.getpid():
            call(self._cancel, owned)
