"""Changes of objects that happen as a whole or not at all, and arrays that outlive their program.

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

Whenever the process is killed, all changes of a transaction are there or none: whoever attaches next, or uses the
object, undoes what was begun. On a pool in /dev/shm that holds for the death of processes; on a file or a device also
for hosts that lose their power (Pool.durability). Threads: one transaction or checkpoint is used by one thread at a
time. Source: include/penstock/persist.h, docs/protocols/persistence.md.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Optional, Union

import numpy as np

from penstock import _library
from penstock._library import check, library, made
from penstock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, DTypeLike, NDArray

    from penstock.pool import Object, Pool, Shape

__all__ = ["Checkpoint", "CheckpointInfo", "Transaction", "Update"]

LOG_BYTES = 1 << 20


def _bounds(array: NDArray[Any]) -> tuple[int, int]:
    """First byte and end of what the array's elements lie in."""
    first = int(array.__array_interface__["data"][0])
    end = first + array.itemsize
    for size, stride in zip(array.shape, array.strides):
        if size == 0:
            return first, first
        end += max(0, (size - 1) * stride)
        first += min(0, (size - 1) * stride)
    return first, end


def _object_of(array: NDArray[Any]) -> Any:
    """The handle of the object whose memory the array shows."""
    from penstock.pool import _View

    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if not isinstance(base, _View):
        raise InvalidArgumentError("the array is no memory of a pool: transactions take those of Object.array() and "
                                   "their slices, not copies")
    return base._owned


def checked_kind(kind: np.dtype[Any]) -> np.dtype[Any]:
    if kind.hasobject or kind.itemsize == 0:
        raise InvalidArgumentError(f"type {kind} cannot lie in a pool: its elements are Python objects, or have no size")
    return kind


class Transaction:
    """Of Pool.transaction(): commits at the end of `with`, or aborts where that is left by an exception.

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
        self._pool = pool
        self._log: Any = pool._undo_log(log_bytes)
        self._bytes = log_bytes
        self._process = os.getpid()

    def __enter__(self) -> Transaction:
        if self._log is None:
            raise InvalidArgumentError("the transaction has ended: pool.transaction() begins another")
        check(library().penstock_tx_begin(self._log.handle))
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        log, self._log = self._log, None
        if os.getpid() != self._process:
            return  # a forked child that leaves `with`: the transaction is its parent's
        end = library().penstock_tx_commit if kind is None else library().penstock_tx_abort
        check(end(log.handle))  # else closing the log, which nobody keeps then, undoes it
        check(library().penstock_tx_release(log.handle, None))
        self._pool._keep_undo_log(self._bytes, log)

    def add(self, what: Union[NDArray[Any], Object], offset: int = 0, bytes: Optional[int] = None) -> None:
        """Before these bytes are stored to: an array of Object.array(), a slice of it, or `bytes` of an object from
        `offset` on (None: all that follows). Old bytes are kept in whole lines of 64 bytes, also those between the
        elements of a slice that has gaps. Errors: InvalidArgumentError; NoSpaceError, where the old bytes do not fit
        into the undo log (Pool.transaction); UnavailableError, while another process writes the object."""
        if self._log is None:
            raise InvalidArgumentError("the transaction has ended: pool.transaction() begins another")
        if isinstance(what, np.ndarray):
            owned = _object_of(what)
            found = _library.ObjectInfo()
            library().penstock_object_info(owned.handle, found)
            first, end = _bounds(what)
            handle, offset, length = owned.handle, first - int(found.data), end - first
        else:
            handle, length = what._open.handle, what._length(offset, bytes)
        if length != 0:
            check(library().penstock_tx_add(self._log.handle, handle, offset, length))


@dataclass(frozen=True)
class CheckpointInfo:
    """`version` grows with each commit and is 0 before the first; `tag` is as given to it; `bytes` are those of one
    copy: what was asked for, up to whole pages."""

    version: int
    tag: int
    bytes: int


class Checkpoint:
    """Of Pool.checkpoint(): two copies of an array in the pool, one of which is valid. The processes of an MPI job
    each call begin(), write() their parts and flush(); after a barrier one of them calls commit().

    >>> import penstock.pool
    >>> spec = penstock.pool.create_temporary()
    >>> with penstock.pool.attach(spec) as pool, pool.checkpoint("saved", 4096, lifetime="pool") as saved:
    ...     with saved.update(tag=100) as new:
    ...         new.write([1.0, 2.0])
    ...     saved.info().tag, saved.read(2, "float64").tolist()
    (100, [1.0, 2.0])
    >>> penstock.pool.remove(spec)
    """

    def __init__(self, handle: int, pool: Pool) -> None:
        from penstock.pool import _Owned

        self._owned: Any = _Owned(handle, library().penstock_checkpoint_close, pool._open)

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _handle(self) -> int:
        if self._owned is None:
            raise InvalidArgumentError("the checkpoint is closed")
        return int(self._owned.handle)

    def close(self) -> None:
        """What was committed stays. A second time changes nothing."""
        self._owned = None

    def destroy(self) -> None:
        """Removes both copies. Errors: NotFoundError."""
        self._handle
        owned, self._owned = self._owned, None
        check(library().penstock_checkpoint_destroy(owned.release()))

    def info(self) -> CheckpointInfo:
        """What is valid now."""
        found = _library.CheckpointInfo()
        check(library().penstock_checkpoint_info(self._handle, found))
        return CheckpointInfo(found.version, found.tag, found.bytes)

    def begin(self) -> int:
        """Begins the version after the valid one, and returns its number."""
        version = ctypes.c_uint64()
        check(library().penstock_checkpoint_begin(self._handle, version))
        return version.value

    def write(self, source: ArrayLike, offset: int = 0) -> None:
        """Copies an array into the version that was begun, `offset` bytes from its start on. Processes that write at
        once write different words of 8 bytes. Errors: InvalidArgumentError; Error of status mismatch, when another
        process has committed since."""
        data = np.ascontiguousarray(source)
        checked_kind(data.dtype)
        check(library().penstock_checkpoint_write(self._handle, offset, data.ctypes.data, data.nbytes))

    def flush(self) -> None:
        """What was written here is at the device, or in the file: before the process that commits is told."""
        check(library().penstock_checkpoint_flush(self._handle))

    def commit(self, tag: int = 0) -> None:
        """What was begun is valid from now on. By one process, when all have flushed."""
        check(library().penstock_checkpoint_commit(self._handle, tag))

    def update(self, tag: int = 0) -> Update:
        """For one process: begins, and commits at the end of `with`, unless that is left by an exception."""
        return Update(self, tag)

    def read(self, shape: Optional[Shape] = None, dtype: DTypeLike = np.uint8, offset: int = 0) -> NDArray[Any]:
        """A copy of the valid version, or a part of it from `offset` bytes on. Reads again while others commit.
        Errors: InvalidArgumentError, also where nothing was committed yet."""
        kind = checked_kind(np.dtype(dtype))
        while True:
            info = self.info()
            if info.version == 0:
                raise InvalidArgumentError("nothing was committed to the checkpoint yet")
            out = np.empty((info.bytes - offset) // kind.itemsize if shape is None else shape, kind)
            try:
                check(library().penstock_checkpoint_read(self._handle, info.version, out.ctypes.data, offset,
                                                         out.nbytes))
                return out
            except Exception:
                if self.info().version == info.version:
                    raise


class Update:
    """The version that is being written: Checkpoint.update()."""

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
    """As Pool.checkpoint()."""
    if bytes is None:
        return Checkpoint(made("checkpoint_open", pool._open.handle, name.encode()), pool)
    return Checkpoint(made("checkpoint_create", pool._open.handle, name.encode(), bytes, lifetime), pool)
