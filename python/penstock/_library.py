"""libpenstock.so, by ctypes, with the signatures of penstock.h and persist.h."""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Callable
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p)
from typing import Any

from penstock import _signals
from penstock._border import i32, nanoseconds, size, text, text_or_none, u32
from penstock.errors import Error, error_of

_NAME = "libpenstock.so.0"


def folder(name: str, holds: str) -> str:
    """A folder of the package or, without that, of the installation prefix above the package."""
    here = os.path.dirname(__file__)
    sought = [os.path.join(here, name)]
    above = here
    while len(sought) < 6 and above != os.path.dirname(above):
        above = os.path.dirname(above)
        sought.append(os.path.join(above, name))
    for path in sought:
        if os.path.exists(os.path.join(path, holds)):
            return path
    raise Error(f"no {holds} (sought in {', '.join(sought)}): install with 'pip install .' or build with "
                "'make build'", "not_found")


class PoolOptions(Structure):
    _fields_ = [("struct_bytes", c_size_t), ("bytes", c_uint64), ("mode", c_int32), ("max_processes", c_uint32),
                ("max_nodes", c_uint32), ("permissions", c_uint32), ("group", c_char_p), ("overwrite", c_int)]


class AttachOptions(Structure):
    _fields_ = [("struct_bytes", c_size_t), ("mode", c_int32), ("rank", c_int32), ("job", c_char_p)]


class PoolInfo(Structure):
    _fields_ = [("id", c_uint64), ("bytes", c_uint64), ("mode", c_int32), ("max_processes", c_uint32),
                ("max_nodes", c_uint32), ("created_wall_ns", c_uint64), ("node", c_uint32), ("token", c_uint64),
                ("object_bytes_total", c_uint64), ("object_bytes_used", c_uint64),
                ("object_bytes_largest_free", c_uint64), ("objects", c_uint64), ("name_slots", c_uint64)]


class ObjectOptions(Structure):
    _fields_ = [("struct_bytes", c_size_t), ("lifetime", c_int32), ("alignment", c_uint64), ("skip_zeroing", c_int),
                ("open_existing", c_int)]


class ObjectInfo(Structure):
    _fields_ = [("name", c_char_p), ("data", c_void_p), ("bytes", c_uint64), ("offset", c_uint64),
                ("generation", c_uint64)]


class CheckpointInfo(Structure):
    _fields_ = [("version", c_uint64), ("tag", c_uint64), ("bytes", c_uint64)]


# An argument's C type and its check; None: the package itself made the value.
_U32 = (c_uint32, u32)
_U64 = (c_uint64, size)
_I32 = (c_int32, i32)
_FLAG = (c_int, lambda _, value: int(bool(value)))
_TEXT = (c_char_p, text)
_TEXT_OR_NONE = (c_char_p, text_or_none)
_SECONDS = (c_uint64, nanoseconds)
_HANDLE = (c_void_p, None)
_MEMORY = (c_void_p, None)  # addresses computed by the package
_PLACE = (POINTER(c_void_p), None)

Visit = CFUNCTYPE(None, POINTER(ObjectInfo))  # C's second parameter, always NULL, is left out


def _place(kind: Any) -> tuple[Any, None]:
    return POINTER(kind), None


_OF_FIELDS: dict[Any, Any] = {c_uint32: u32, c_uint64: size, c_int32: i32, c_char_p: text_or_none}

_CHECKED: dict[str, dict[str, Any]] = {  # these return a penstock_status_t
    "pool_create": {"SPEC": _TEXT, "options": _place(PoolOptions)},
    "pool_create_temporary": {"ranks": _U32, "spec": (c_char_p, None), "spec_bytes": (c_size_t, size)},
    "pool_remove": {"SPEC": _TEXT, "force": _FLAG},
    "pool_attach": {"SPEC": _TEXT_OR_NONE, "options": _place(AttachOptions), "pool": _PLACE},
    "pool_info": {"pool": _HANDLE, "info": _place(PoolInfo)},
    "arena_create": {"pool": _HANDLE, "name": _TEXT, "bytes": _U64, "options": _place(ObjectOptions),
                     "object": _PLACE},
    "arena_open": {"pool": _HANDLE, "name": _TEXT, "object": _PLACE},
    "arena_remove": {"object": _HANDLE},
    "arena_list": {"pool": _HANDLE, "visit": (Visit, None), "user": _MEMORY},
    "arena_collect": {"pool": _HANDLE, "dry_run": _FLAG, "processes": _place(c_uint32), "objects": _place(c_uint32),
                      "bytes": _place(c_uint64)},
    "publish": {"pool": _HANDLE, "at": _MEMORY, "bytes": _U64},
    "observe": {"pool": _HANDLE, "at": _MEMORY, "bytes": _U64},
    "write": {"pool": _HANDLE, "to": _MEMORY, "source": _MEMORY, "bytes": _U64},
    "read": {"pool": _HANDLE, "to": _MEMORY, "source": _MEMORY, "bytes": _U64},
    "barrier_open": {"object": _HANDLE, "offset": _U64, "participants": _U32, "rank": _U32, "barrier": _PLACE},
    "barrier_wait": {"barrier": _HANDLE, "timeout": _SECONDS},
    "lock_open": {"object": _HANDLE, "offset": _U64, "participants": _U32, "rank": _U32, "lock": _PLACE},
    "lock_acquire": {"lock": _HANDLE, "timeout": _SECONDS},
    "lock_acquire_shared": {"lock": _HANDLE, "timeout": _SECONDS},
    "lock_release": {"lock": _HANDLE},
    "doorbell_open": {"object": _HANDLE, "offset": _U64, "doorbell": _PLACE},
    "doorbell_ring": {"doorbell": _HANDLE, "number": _U64},
    "doorbell_wait": {"doorbell": _HANDLE, "number": _U64, "timeout": _SECONDS, "ringer": _U64},
    "object_set_lifetime": {"object": _HANDLE, "lifetime": _I32},
    "object_lifetime": {"object": _HANDLE, "lifetime": _place(c_int32)},
    "undo_log_open": {"pool": _HANDLE, "log_bytes": _U64, "log": _PLACE},
    "tx_begin": {"log": _HANDLE},
    "tx_add": {"log": _HANDLE, "object": _HANDLE, "offset": _U64, "bytes": _U64},
    "tx_commit": {"log": _HANDLE},
    "tx_abort": {"log": _HANDLE},
    "tx_release": {"log": _HANDLE, "object": _HANDLE},
    "checkpoint_create": {"pool": _HANDLE, "name": _TEXT, "bytes": _U64, "lifetime": _I32, "checkpoint": _PLACE},
    "checkpoint_open": {"pool": _HANDLE, "name": _TEXT, "checkpoint": _PLACE},
    "checkpoint_remove": {"checkpoint": _HANDLE},
    "checkpoint_info": {"checkpoint": _HANDLE, "info": _place(CheckpointInfo)},
    "checkpoint_begin": {"checkpoint": _HANDLE, "version": _place(c_uint64)},
    "checkpoint_write": {"checkpoint": _HANDLE, "offset": _U64, "source": _MEMORY, "bytes": _U64},
    "checkpoint_flush": {"checkpoint": _HANDLE},
    "checkpoint_commit": {"checkpoint": _HANDLE, "tag": _U64},
    "checkpoint_read": {"checkpoint": _HANDLE, "version": _U64, "to": _MEMORY, "offset": _U64, "bytes": _U64},
}
_PLAIN: dict[str, tuple[Any, dict[str, Any]]] = {  # return type and arguments
    "version": (c_char_p, {}),
    "status_name": (c_char_p, {"status": _I32}),
    "last_error": (c_char_p, {}),
    "default_spec": (c_char_p, {}),
    "interrupt_by": (None, {"look": _MEMORY, "user": _MEMORY}),
    "pool_detach": (None, {"pool": _HANDLE}),
    "arena_close": (None, {"object": _HANDLE}),
    "object_info": (None, {"object": _HANDLE, "info": _place(ObjectInfo)}),
    "barrier_bytes": (c_uint64, {"participants": _U32}),
    "barrier_cancel": (None, {"barrier": _HANDLE}),
    "barrier_close": (None, {"barrier": _HANDLE}),
    "lock_bytes": (c_uint64, {"participants": _U32}),
    "lock_cancel": (None, {"lock": _HANDLE}),
    "lock_close": (None, {"lock": _HANDLE}),
    "doorbell_bytes": (c_uint64, {}),
    "doorbell_read": (c_uint64, {"doorbell": _HANDLE}),
    "doorbell_cancel": (None, {"doorbell": _HANDLE}),
    "doorbell_close": (None, {"doorbell": _HANDLE}),
    "pool_durability": (c_int, {"pool": _HANDLE}),
    "undo_log_close": (None, {"log": _HANDLE}),
    "checkpoint_close": (None, {"checkpoint": _HANDLE}),
}


@functools.lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
    """Loads libpenstock.so. Errors: Error if it is not found."""
    try:
        path = os.path.join(folder("lib", _NAME), _NAME)
    except Error:
        path = _NAME  # let the system's loader find it
        try:
            return ctypes.CDLL(path)
        except OSError:
            pass
        raise
    return ctypes.CDLL(path)


class _Functions(dict):  # type: ignore[type-arg]
    """Maps a name to its function, the checks of its arguments by position, and whether it returns a status."""

    def __missing__(self, name: str) -> tuple[Any, list[tuple[int, str, Callable[[str, Any], Any]]], bool]:
        function = getattr(_library(), f"penstock_{name}")
        result, arguments = (c_int32, _CHECKED[name]) if name in _CHECKED else _PLAIN[name]
        function.restype = result
        function.argtypes = [kind for kind, _ in arguments.values()]
        checks = [(place, of, check) for place, (of, (_, check)) in enumerate(arguments.items()) if check is not None]
        found = function, checks, name in _CHECKED
        self[name] = found
        return found


_functions = _Functions()


def function_of(name: str) -> Any:
    """The function penstock_NAME, without checks."""
    return _functions[name][0]


def call(name: str, *arguments: Any) -> Any:
    """Calls penstock_NAME. Returns its result, or None if that is a status. Handles are objects with `_as_parameter_`
    and must live during the call. Errors: those of the library; InvalidArgumentError and TypeError for an argument
    that does not fit its C type."""
    function, checks, checked = _functions[name]
    if not _signals.main_thread_is_asked:
        _signals.ask_main_thread(function_of("interrupt_by"))
    passed = list(arguments)
    for place, of, check in checks:
        passed[place] = check(of, passed[place])
    result = function(*passed)
    if _signals.raised:
        _signals.raise_of_this_thread()
    if not checked:
        return result
    if result != 0:
        raise error_of(function_of("status_name")(result).decode(),
                       function_of("last_error")().decode(errors="replace"))
    return None


def options(kind: type[Structure], **fields: Any) -> Structure:
    """Makes a struct of options. Its struct_bytes tells the library which version of the struct it is."""
    types = dict(kind._fields_)  # type: ignore[arg-type]
    checked = {name: _OF_FIELDS[types[name]](name, value) for name, value in fields.items()}
    return kind(struct_bytes=ctypes.sizeof(kind), **checked)
