"""Collectives and shared memory over a CXL pool.

`penstock.torch` is the back end "penstock" of torch.distributed. `penstock.pool` maps objects of a pool as NumPy
arrays and torch tensors. This package imports neither of them.
"""

from penstock import _library
from penstock.errors import (AlreadyExistsError, DeadlineError, Error, InvalidArgumentError, NoSpaceError,
                             NotFoundError, PeerDeadError, PermissionDeniedError)

__all__ = ["AlreadyExistsError", "DeadlineError", "Error", "InvalidArgumentError", "NoSpaceError", "NotFoundError",
           "PeerDeadError", "PermissionDeniedError", "__version__", "include_folder", "library_folder"]


def include_folder() -> str:
    """The folder for a C compiler's -I, for `#include <penstock/penstock.h>`.

    >>> import os, penstock
    >>> os.path.exists(os.path.join(penstock.include_folder(), "penstock", "penstock.h"))
    True
    """
    return _library.folder("include", "penstock/penstock.h")


def library_folder() -> str:
    """The folder of libpenstock.so, for a linker's -L and -rpath.

    >>> import os, penstock
    >>> os.path.exists(os.path.join(penstock.library_folder(), "libpenstock.so"))
    True
    """
    return _library.folder("lib", "libpenstock.so")


def __getattr__(name: str) -> str:
    """`__version__` is the version of the library."""
    if name == "__version__":
        return str(_library.call("version").decode())
    raise AttributeError(f"module 'penstock' has no attribute '{name}'")
