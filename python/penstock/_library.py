"""libpenstock.so, by ctypes, with the signatures of penstock.h and persist.h."""

import ctypes
import functools
import os
from ctypes import (CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p)

from penstock.errors import Error, error_of

_NAME = "libpenstock.so.0"


def folder(name: str, holds: str) -> str:
    """A folder of the package, or else of the prefix that the package is installed below."""
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


Visit = CFUNCTYPE(None, POINTER(ObjectInfo), c_void_p)

_MAKES = POINTER(c_void_p)
_CHECKED = {  # these return a penstock_status_t
    "pool_create": [c_char_p, POINTER(PoolOptions)],
    "pool_create_temporary": [c_uint32, c_char_p, c_size_t],
    "pool_remove": [c_char_p, c_int],
    "pool_attach": [c_char_p, POINTER(AttachOptions), _MAKES],
    "pool_info": [c_void_p, POINTER(PoolInfo)],
    "arena_create": [c_void_p, c_char_p, c_uint64, POINTER(ObjectOptions), _MAKES],
    "arena_open": [c_void_p, c_char_p, _MAKES],
    "arena_destroy": [c_void_p],
    "arena_list": [c_void_p, Visit, c_void_p],
    "arena_collect": [c_void_p, c_int, POINTER(c_uint32), POINTER(c_uint32), POINTER(c_uint64)],
    "publish": [c_void_p, c_void_p, c_uint64],
    "observe": [c_void_p, c_void_p, c_uint64],
    "write": [c_void_p, c_void_p, c_void_p, c_uint64],
    "read": [c_void_p, c_void_p, c_void_p, c_uint64],
    "barrier_open": [c_void_p, c_uint64, c_uint32, c_uint32, _MAKES],
    "barrier_wait": [c_void_p, c_uint64],
    "lock_open": [c_void_p, c_uint64, c_uint32, c_uint32, _MAKES],
    "lock_acquire": [c_void_p, c_uint64],
    "lock_acquire_shared": [c_void_p, c_uint64],
    "doorbell_open": [c_void_p, c_uint64, _MAKES],
    "doorbell_wait": [c_void_p, c_uint64, c_uint64, c_uint64],
    "object_set_lifetime": [c_void_p, c_int32],
    "object_lifetime": [c_void_p, POINTER(c_int32)],
    "undo_log_open": [c_void_p, c_uint64, _MAKES],
    "tx_begin": [c_void_p],
    "tx_add": [c_void_p, c_void_p, c_uint64, c_uint64],
    "tx_commit": [c_void_p],
    "tx_abort": [c_void_p],
    "tx_release": [c_void_p, c_void_p],
    "tx_read": [c_void_p, c_void_p, c_uint64, c_uint64, c_uint64, POINTER(c_uint64)],
    "tx_recover": [c_void_p, POINTER(c_uint32), POINTER(c_uint32)],
    "checkpoint_create": [c_void_p, c_char_p, c_uint64, c_int32, _MAKES],
    "checkpoint_open": [c_void_p, c_char_p, _MAKES],
    "checkpoint_destroy": [c_void_p],
    "checkpoint_info": [c_void_p, POINTER(CheckpointInfo)],
    "checkpoint_begin": [c_void_p, POINTER(c_uint64)],
    "checkpoint_write": [c_void_p, c_uint64, c_void_p, c_uint64],
    "checkpoint_flush": [c_void_p],
    "checkpoint_commit": [c_void_p, c_uint64],
    "checkpoint_read": [c_void_p, c_uint64, c_void_p, c_uint64, c_uint64],
}
_PLAIN = {  # name: (result, arguments)
    "version": (c_char_p, []),
    "status_name": (c_char_p, [c_int32]),
    "last_error": (c_char_p, []),
    "default_spec": (c_char_p, []),
    "pool_detach": (None, [c_void_p]),
    "arena_close": (None, [c_void_p]),
    "object_info": (None, [c_void_p, POINTER(ObjectInfo)]),
    "barrier_bytes": (c_uint64, [c_uint32]),
    "barrier_close": (None, [c_void_p]),
    "lock_bytes": (c_uint64, [c_uint32]),
    "lock_release": (None, [c_void_p]),
    "lock_close": (None, [c_void_p]),
    "doorbell_bytes": (c_uint64, []),
    "doorbell_ring": (None, [c_void_p, c_uint64]),
    "doorbell_read": (c_uint64, [c_void_p]),
    "doorbell_close": (None, [c_void_p]),
    "pool_durability": (c_int, [c_void_p]),
    "undo_log_close": (None, [c_void_p]),
    "checkpoint_close": (None, [c_void_p]),
}


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """Errors: Error, where it is nowhere."""
    try:
        path = os.path.join(folder("lib", _NAME), _NAME)
    except Error:
        path = _NAME  # where the system has it
        try:
            loaded = ctypes.CDLL(path)
        except OSError:
            loaded = None
        if loaded is None:
            raise
    else:
        loaded = ctypes.CDLL(path)
    for name, arguments in _CHECKED.items():
        function = getattr(loaded, f"penstock_{name}")
        function.restype, function.argtypes = c_int32, arguments
    for name, (result, arguments) in _PLAIN.items():
        function = getattr(loaded, f"penstock_{name}")
        function.restype, function.argtypes = result, arguments
    return loaded


def check(status: int) -> None:
    """Errors: that of the last call of this thread."""
    if status != 0:
        loaded = library()
        raise error_of(loaded.penstock_status_name(status).decode(), loaded.penstock_last_error().decode())


def with_bytes(options: Structure) -> Structure:
    """Fills in struct_bytes, by which the library tells versions apart."""
    setattr(options, "struct_bytes", ctypes.sizeof(options))
    return options


def made(function_name: str, *arguments: object) -> int:
    """The handle that a function of the library makes as its last argument."""
    handle = c_void_p()
    check(getattr(library(), f"penstock_{function_name}")(*arguments, ctypes.byref(handle)))
    assert handle.value is not None
    return handle.value
