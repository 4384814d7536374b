"""Atomic changes of objects, and arrays that outlive their program.

    import penstock.pool

    pool = penstock.pool.attach("/var/lib/pool")                       # a file or a device
    field = pool.create("field", 8 << 20, lifetime="persistent")       # outlives processes and hosts
    values = field.array((1024, 1024), "float64")
    with pool.transaction() as tx:
        tx.add(values[0])                                              # before it is stored to
        values[0] = 1.0
    saved = pool.checkpoint("saved", values.nbytes)                    # two copies, one of them valid
    with saved.update(tag=1) as new:
        new.write(values)

If the process is killed, either all changes of a transaction take effect or none: the next process that attaches, or
uses the object, rolls an unfinished transaction back. A pool in /dev/shm survives the death of processes; a pool in a
file or on a device also survives power failures (Pool.durability). Threads: only one thread may use a transaction or
checkpoint at a time. Source: include/penstock/persist.h, docs/protocols/persistence.md.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from penstock import _library
from penstock._arrays import bounds, checked_kind, object_of, sizes_of
from penstock._border import size
from penstock._handles import Handle, Owned, made
from penstock._library import call
from penstock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from penstock.pool import Object, Pool, Shape

__all__ = ["Checkpoint", "CheckpointInfo", "Transaction", "Update"]

LOG_BYTES = 1 << 20


class Transaction(Handle):
    """The result of Pool.transaction(). Commits at the end of `with`; aborts if an exception leaves it.

    >>> import penstock.pool
    >>> spec = penstock.pool.create_temporary()
    >>> with penstock.pool.attach(spec) as pool, pool.create("accounts", 4096) as accounts:
    ...     money = accounts.array(2, "int64")
    ...     with pool.transaction() as tx:
    ...         tx.add(money)
    ...         money[:] = 70, 30
    ...     try:
    ...         with pool.transaction() as tx:
    ...             tx.add(money)
    ...             money[0] -= 50
    ...             raise RuntimeError("half of it is done")
    ...     except RuntimeError:
    ...         pass
    ...     money.tolist()
    [70, 30]
    >>> del money
    >>> penstock.pool.remove(spec)
    """

    def __init__(self, pool: Pool, log_bytes: int = LOG_BYTES) -> None:
        log_bytes = size("log_bytes", log_bytes)
        super().__init__(pool._undo_log(log_bytes), "the transaction")
        self._pool = pool
        self._bytes = log_bytes

    def __enter__(self) -> Transaction:
        call("tx_begin", self._log)
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        if self._owned is not None and not self._usable:
            return  # a forked child leaves `with`: the transaction belongs to its parent
        log, self._owned = self._log, None
        call("tx_commit" if kind is None else "tx_abort", log)  # if this fails, closing the log undoes the changes
        call("tx_release", log, None)
        self._pool._keep_undo_log(self._bytes, log)

    @property
    def _log(self) -> Owned:
        if self._owned is None:
            raise InvalidArgumentError("the transaction has ended: pool.transaction() begins another")
        return self._open

    def add(self, what: Union[NDArray[Any], Object], offset: int = 0, bytes: Optional[int] = None) -> None:
        """Saves the old values; to be called before storing to these bytes. `what`: an array from Object.array(), a
        slice of it, or an object; then `bytes` bytes from `offset` on (None: to the object's end). Saves whole lines of
        64 bytes, including the gaps of a strided slice. Errors: InvalidArgumentError; NoSpaceError if the undo log
        (Pool.transaction) is full; UnavailableError while another process writes the object."""
        log = self._log
        if isinstance(what, np.ndarray):
            owned = object_of(what)
            found = _library.ObjectInfo()
            call("object_info", owned, found)
            first, end = bounds(what)
            offset, length = first - int(found.data or 0), end - first
        elif isinstance(what, Handle) and hasattr(what, "_range"):
            owned = what._open
            offset, length = what._range(offset, bytes)
        else:
            raise TypeError(f"a transaction cannot add a {type(what).__name__}: it takes objects, and arrays of "
                            "Object.array() and their slices")
        if length != 0:
            call("tx_add", log, owned, offset, length)


@dataclass(frozen=True)
class CheckpointInfo:
    """`version` grows with each commit and is 0 before the first. `tag` is the one passed to the last commit. `bytes`
    is the size of one copy: the requested size, rounded up to whole pages."""

    version: int
    tag: int
    bytes: int


class Checkpoint(Handle):
    """The result of Pool.checkpoint(): two copies of an array in the pool, one of which is valid. Each process of an MPI
    job calls begin(), write() for its part, and flush(); after a barrier one of them calls commit().

    >>> import penstock.pool
    >>> spec = penstock.pool.create_temporary()
    >>> with penstock.pool.attach(spec) as pool, pool.checkpoint("saved", 4096, lifetime="pool") as saved:
    ...     with saved.update(tag=100) as new:
    ...         new.write([1.0, 2.0])
    ...     saved.info().tag, saved.read(2, "float64").tolist()
    (100, [1.0, 2.0])
    >>> penstock.pool.remove(spec)
    """

    def __init__(self, owned: Owned) -> None:
        super().__init__(owned, "the checkpoint")

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the handle; committed data stay. Does nothing the second time."""
        super().close()

    def destroy(self) -> None:
        """Removes both copies. Errors: NotFoundError."""
        call("checkpoint_remove", self._open)
        self.close()

    def info(self) -> CheckpointInfo:
        """Describes the valid version."""
        found = _library.CheckpointInfo()
        call("checkpoint_info", self._open, found)
        return CheckpointInfo(found.version, found.tag, found.bytes)

    def begin(self) -> int:
        """Begins the version after the valid one, and returns its number."""
        version = ctypes.c_uint64()
        call("checkpoint_begin", self._open, version)
        return version.value

    def write(self, source: ArrayLike, offset: int = 0) -> None:
        """Copies an array into the version that was begun, `offset` bytes from its start. Processes that write
        concurrently must write different words of 8 bytes. Errors: InvalidArgumentError; Error with status mismatch if
        another process has committed since begin()."""
        data = np.ascontiguousarray(source)
        checked_kind(data.dtype)
        call("checkpoint_write", self._open, offset, data.ctypes.data, data.nbytes)

    def flush(self) -> None:
        """Waits until this process's writes have reached the device or the file. To be called before the process that
        commits is notified."""
        call("checkpoint_flush", self._open)

    def commit(self, tag: int = 0) -> None:
        """Makes the version that was begun valid. To be called by one process, after all have flushed."""
        call("checkpoint_commit", self._open, tag)

    def update(self, tag: int = 0) -> Update:
        """For a single process: begins a version, and commits it at the end of `with` unless an exception leaves it."""
        return Update(self, tag)

    def read(self, shape: Optional[Shape] = None, dtype: DTypeLike = np.uint8, offset: int = 0) -> NDArray[Any]:
        """Copies the valid version, or a part of it from `offset` bytes on. Retries if another process commits
        meanwhile. Errors: InvalidArgumentError, also if nothing was committed yet."""
        kind = checked_kind(np.dtype(dtype))
        offset = size("offset", offset)
        while True:
            info = self.info()
            if info.version == 0:
                raise InvalidArgumentError("nothing was committed to the checkpoint yet")
            left = max(0, info.bytes - offset)
            sizes = (left // kind.itemsize,) if shape is None else sizes_of(shape)
            if math.prod(sizes) * kind.itemsize > left:
                raise InvalidArgumentError(f"an array {sizes} of {kind} is longer than the {left} bytes of the checkpoint "
                                           f"from offset {offset} on")
            out = np.empty(sizes, kind)
            try:
                call("checkpoint_read", self._open, info.version, out.ctypes.data, offset, out.nbytes)
                return out
            except Exception:
                if self.info().version == info.version:
                    raise


class Update:
    """The version that is being written; the result of Checkpoint.update()."""

    def __init__(self, checkpoint: Checkpoint, tag: int) -> None:
        self._checkpoint = checkpoint
        self._tag = tag

    def __enter__(self) -> Checkpoint:
        self._checkpoint.begin()
        return self._checkpoint

    def __exit__(self, kind: Optional[type[BaseException]], *_: object) -> None:
        if kind is None:
            self._checkpoint.commit(self._tag)


def checkpoint_of(pool: Pool, name: str, bytes: Optional[int], lifetime: int) -> Checkpoint:
    """Implements Pool.checkpoint()."""
    by, more = ("checkpoint_open", ()) if bytes is None else ("checkpoint_create", (bytes, lifetime))
    owned = pool._open
    return Checkpoint(made(by, owned, name, *more, close="checkpoint_close", needs=owned))
