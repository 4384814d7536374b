"""Pools, and objects in them as NumPy arrays and torch tensors.

    import penstock.pool

    pool = penstock.pool.attach()                       # PENSTOCK_POOL
    field = pool.create("field", 8 << 20)               # on another host: pool.open("field")
    grid = field.array((1024, 1024), "float64")         # memory of the pool itself, no copy
    grid[0, :] = 1.0
    field.publish()                                     # now it is there for other hosts

Memory: an array is ordinary memory of this process, but no cache is coherent between hosts. Write, then `publish()`;
`observe()`, then read. At any moment one process at most writes to a line of 64 bytes. Units: bytes and seconds; a
timeout of None is PENSTOCK_TIMEOUT_MS. Threads: all may be called from several threads, but one barrier, lock or
doorbell by one at a time. A child of os.fork() attaches by itself. Errors: those of penstock.errors, which are also
Python's own (LookupError, TimeoutError, ...). Source: cMPI, sections 3.1, 3.4 and 3.5.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, NoReturn, Optional, Sequence, TypeVar, Union

import numpy as np

from penstock import _library
from penstock._library import check, library, made, with_bytes
from penstock.errors import InvalidArgumentError
from penstock.persist import LOG_BYTES, Checkpoint, Transaction, checked_kind, checkpoint_of

if TYPE_CHECKING:
    import torch
    from numpy.typing import ArrayLike, DTypeLike, NDArray

__all__ = ["Barrier", "Doorbell", "Lock", "Object", "ObjectInfo", "Pool", "PoolInfo", "attach", "create",
           "create_temporary", "default_spec", "remove"]

LINE_BYTES = 64

_MODES = {None: 0, "hardware": 1, "software": 2, "uncached": 3}
_MODE_NAMES = {number: name for name, number in _MODES.items()}
_LIFETIMES = {"pool": 1, "process": 2, "persistent": 3}
_DURABILITIES = ("none", "file", "device")

Shape = Union[int, Sequence[int]]


@dataclass(frozen=True)
class PoolInfo:
    """Of a pool at one moment. `node` is this process's host in it, `token` names this attachment."""

    id: int
    bytes: int
    mode: str
    max_processes: int
    max_nodes: int
    created_wall_ns: int
    node: int
    token: int
    object_bytes_total: int
    object_bytes_used: int
    object_bytes_largest_free: int
    objects: int
    name_slots: int


@dataclass(frozen=True)
class ObjectInfo:
    """`offset` is that in the pool, the same in every process; `generation` tells an object from a later one of the
    same name."""

    name: str
    bytes: int
    offset: int
    generation: int


def create(spec: str, bytes: int = 0, *, mode: Optional[str] = None, max_processes: int = 0, max_nodes: int = 0,
           permissions: int = 0o600, group: Optional[str] = None, overwrite: bool = False) -> None:
    """Makes a pool; attaches nobody. `spec`: "/dev/daxX.Y", a file's path or "shm:NAME"; several joined by commas
    interleave. `bytes` may be 0 with /dev/daxX.Y: all there is. `mode`: "software" (None), "hardware", "uncached".
    Errors: AlreadyExistsError, InvalidArgumentError, NoSpaceError, PermissionDeniedError.

    >>> import penstock.pool
    >>> penstock.pool.create("shm:penstock-doc", 32 << 20, overwrite=True)
    >>> with penstock.pool.attach("shm:penstock-doc") as pool:
    ...     pool.info().mode
    'software'
    >>> penstock.pool.remove("shm:penstock-doc")
    """
    options = _library.PoolOptions(bytes=bytes, mode=_mode(mode), max_processes=max_processes, max_nodes=max_nodes,
                                   permissions=permissions, group=group.encode() if group else None,
                                   overwrite=int(overwrite))
    check(library().penstock_pool_create(spec.encode(), with_bytes(options)))


def create_temporary(ranks: int = 1) -> str:
    """A pool in /dev/shm for the `ranks` processes of a program on one host, of PENSTOCK_SIZE, or 256 MB or 32 MB a
    rank. Gives its SPEC; who made it removes it.

    >>> import penstock.pool
    >>> spec = penstock.pool.create_temporary()
    >>> penstock.pool.remove(spec)
    """
    spec = ctypes.create_string_buffer(256)
    check(library().penstock_pool_create_temporary(ranks, spec, len(spec)))
    return spec.value.decode()


def default_spec() -> str:
    """What PENSTOCK_POOL names; "" where it is not set."""
    return str(library().penstock_default_spec().decode())


def remove(spec: str, force: bool = False) -> None:
    """Removes a pool's files and segments. Refuses while living processes are attached, unless `force`."""
    check(library().penstock_pool_remove(spec.encode(), int(force)))


def attach(spec: Optional[str] = None, *, mode: Optional[str] = None, rank: int = -1,
           job: Optional[str] = None) -> Pool:
    """Maps a pool; `spec` None: PENSTOCK_POOL. A `mode` that is given must be the pool's. `rank` and `job` are shown
    by `penstock ps`. Milliseconds however large the pool is. Errors: NotFoundError, PermissionDeniedError, Error of
    status wrong_format, mismatch or no_slots."""
    options = _library.AttachOptions(mode=_mode(mode), rank=rank, job=job.encode() if job else None)
    return Pool(made("pool_attach", spec.encode() if spec is not None else None, with_bytes(options)))


class _Owned:
    """A handle of the library: given back when the last that refers to it is gone or the program ends, never by a
    forked child. `needs`: what must be given back after it."""

    def __init__(self, handle: int, give_back: Callable[[int], None], needs: Optional[_Owned] = None) -> None:
        self.handle = handle
        self.needs = needs
        self._end = weakref.finalize(self, _Owned._give_back, os.getpid(), give_back, handle)

    @staticmethod
    def _give_back(owner: int, give_back: Callable[[int], None], handle: int) -> None:
        if os.getpid() == owner:
            give_back(handle)

    def __reduce__(self) -> NoReturn:
        raise TypeError("handles of a pool cannot be pickled: they are addresses in this process; attach to the pool in "
                        "the other one, and open the object by its name")

    def release(self) -> int:
        """It is given back otherwise."""
        self._end.detach()
        return self.handle


class _Handle:
    def __init__(self, owned: _Owned, what: str) -> None:
        self._what = what
        self._owned: Optional[_Owned] = owned

    @property
    def _open(self) -> _Owned:
        if self._owned is None:
            raise InvalidArgumentError(f"{self._what} is closed")
        return self._owned

    def close(self) -> None:
        """A second time changes nothing."""
        self._owned = None


_Part = TypeVar("_Part", bound=_Handle)


class Pool(_Handle):
    """An attached pool. `with` detaches at the end, or when its last object is closed.

    >>> import penstock.pool
    >>> spec = penstock.pool.create_temporary()
    >>> pool = penstock.pool.attach(spec)
    >>> field = pool.create("field", 1 << 20)
    >>> [found.name for found in pool.objects()]
    ['field']
    >>> field.destroy()
    >>> pool.close()
    >>> penstock.pool.remove(spec)
    """

    def __init__(self, handle: int) -> None:
        super().__init__(_Owned(handle, library().penstock_pool_detach), "the pool")
        self._undo_logs: dict[int, list[_Owned]] = {}  # idle ones, by their bytes

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def info(self) -> PoolInfo:
        """Walks the object space: for people and tests."""
        found = _library.PoolInfo()
        check(library().penstock_pool_info(self._open.handle, found))
        fields = {name: getattr(found, name) for name in PoolInfo.__dataclass_fields__}
        return PoolInfo(**{**fields, "mode": str(_MODE_NAMES.get(found.mode, found.mode))})

    def create(self, name: str, bytes: int, *, lifetime: str = "pool", alignment: int = LINE_BYTES,
               zero: bool = True, exist_ok: bool = False) -> Object:
        """An object with a name of 1 to 63 bytes. `lifetime` "pool": until it is destroyed; "process": until this
        process detaches or dies; "persistent": as "pool", and it stays when hosts are switched off, where the pool can
        keep it. `exist_ok`: one of that name and size is opened instead. Takes the pool's lock. Errors:
        AlreadyExistsError, NoSpaceError, InvalidArgumentError; Error of status unavailable, for "persistent"."""
        if bytes <= 0:
            raise InvalidArgumentError(f"object '{name}' of {bytes} bytes: at least 1 is needed")
        options = _library.ObjectOptions(lifetime=_lifetime(lifetime), alignment=alignment,
                                         skip_zeroing=int(not zero), open_existing=int(exist_ok))
        return Object(self, made("arena_create", self._open.handle, name.encode(), bytes, with_bytes(options)))

    def open(self, name: str) -> Object:
        """An object that exists. What its creator published before is not implied: `observe()`. Errors:
        NotFoundError."""
        return Object(self, made("arena_open", self._open.handle, name.encode()))

    def objects(self) -> list[ObjectInfo]:
        """All objects, by name."""
        found: list[ObjectInfo] = []

        def visit(info: Any, _: Any) -> None:
            found.append(_object_info(info.contents))

        check(library().penstock_arena_list(self._open.handle, _library.Visit(visit), None))
        return found

    def durability(self) -> str:
        """What the pool keeps when hosts are switched off: "none" (/dev/shm), "file" (what was committed, by msync) or
        "device" (what has reached it)."""
        return _DURABILITIES[library().penstock_pool_durability(self._open.handle)]

    def transaction(self, log_bytes: int = LOG_BYTES) -> Transaction:
        """`with pool.transaction() as tx`: see penstock.persist.Transaction. `log_bytes`: of its undo log, which all
        old bytes of the transaction must fit into; logs are used again. Errors: NoSpaceError; Error of status
        no_slots."""
        return Transaction(self, log_bytes)

    def checkpoint(self, name: str, bytes: Optional[int] = None, *, lifetime: str = "persistent") -> Checkpoint:
        """Two copies of `bytes` under a name, made if there are none; `bytes` None: those that exist. See
        penstock.persist.Checkpoint. Errors: AlreadyExistsError, NoSpaceError, NotFoundError; Error of status
        unavailable, where the pool keeps nothing: lifetime "pool" outlives processes there."""
        return checkpoint_of(self, name, bytes, _lifetime(lifetime))

    def _undo_log(self, log_bytes: int) -> _Owned:
        try:
            return self._undo_logs[log_bytes].pop()  # threads may call it: each gets one of its own
        except LookupError:
            pass
        handle = made("undo_log_open", self._open.handle, log_bytes)
        return _Owned(handle, library().penstock_undo_log_close, self._open)

    def _keep_undo_log(self, log_bytes: int, owned: _Owned) -> None:
        if self._owned is not None:  # else it would keep a closed pool attached
            self._undo_logs.setdefault(log_bytes, []).append(owned)

    def close(self) -> None:
        self._undo_logs.clear()
        super().close()

    def collect(self, dry_run: bool = False) -> tuple[int, int, int]:
        """Frees what dead processes have left: how many of them, their objects, and the bytes. `dry_run` only
        counts."""
        processes, objects, count = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_uint64()
        check(library().penstock_arena_collect(self._open.handle, int(dry_run), processes, objects, count))
        return processes.value, objects.value, count.value


class _View:
    """What an array keeps alive, and with it the object's memory."""

    def __init__(self, owned: _Owned, data: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._owned = owned
        self.__array_interface__ = {"version": 3, "data": (data, False), "shape": shape, "typestr": dtype.str,
                                    "descr": dtype.descr}


class Object(_Handle):
    """A named piece of a pool. `with` closes it at the end, or when its last array is gone; it stays in the pool.
    What was stored and not published is sent on then. Its barriers, locks and doorbells are closed with it.

    >>> import penstock.pool
    >>> spec = penstock.pool.create_temporary()
    >>> with penstock.pool.attach(spec) as pool, pool.create("numbers", 4096) as numbers:
    ...     numbers.write([1.5, 2.5])
    ...     numbers.array(2, "float64").sum()
    np.float64(4.0)
    >>> penstock.pool.remove(spec)
    """

    def __init__(self, pool: Pool, handle: int) -> None:
        found = _library.ObjectInfo()
        library().penstock_object_info(handle, found)
        super().__init__(_Owned(handle, library().penstock_arena_close, pool._open), "the object")
        self.info = _object_info(found)
        self._what = f"object '{self.info.name}'"
        self._data = int(found.data)
        self._views: weakref.WeakSet[_View] = weakref.WeakSet()
        self._parts: weakref.WeakSet[_Handle] = weakref.WeakSet()

    def __enter__(self) -> Object:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return self.info.bytes

    @property
    def name(self) -> str:
        return self.info.name

    def array(self, shape: Optional[Shape] = None, dtype: DTypeLike = np.uint8, offset: int = 0) -> NDArray[Any]:
        """The object's memory from `offset` (bytes) on, as an array of that shape; None: one row of all that follows.
        No copy, and no publish or observe. Errors: InvalidArgumentError, where it does not fit."""
        kind = checked_kind(np.dtype(dtype))
        if not 0 <= offset <= len(self) or offset % kind.alignment != 0:
            raise InvalidArgumentError(f"offset {offset} in {self._what} of {len(self)} bytes: a multiple of "
                                       f"{kind.alignment} inside it is needed for {kind}")
        if shape is None:
            shape = (len(self) - offset) // kind.itemsize
        sizes = (shape,) if isinstance(shape, int) else tuple(int(size) for size in shape)
        needed = kind.itemsize
        for size in sizes:
            if size < 0:
                raise InvalidArgumentError(f"shape {sizes}: a size is negative")
            needed *= size
        if needed > len(self) - offset:
            raise InvalidArgumentError(f"an array {sizes} of {kind} needs {needed} bytes, and {self._what} has "
                                       f"{len(self) - offset} from offset {offset} on")
        view = _View(self._open, self._data + offset, sizes, kind)
        self._views.add(view)
        return np.asarray(view)

    def tensor(self, shape: Optional[Shape] = None, dtype: Optional[torch.dtype] = None,
               offset: int = 0) -> torch.Tensor:
        """The same as a torch tensor, by DLPack; `dtype` None: torch.uint8."""
        import torch

        kind = dtype or torch.uint8
        size = torch.empty(0, dtype=kind).element_size()
        if offset % size != 0:
            raise InvalidArgumentError(f"offset {offset} in {self._what}: a multiple of {size} is needed for {kind}")
        if shape is None:
            shape = (len(self) - offset) // size
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        count = 1
        for each in sizes:
            count *= each
        flat = torch.utils.dlpack.from_dlpack(self.array(count * size, np.uint8, offset))
        return flat.view(kind).reshape(sizes)

    def __dlpack__(self, **options: Any) -> Any:
        return self.array().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # a CPU

    def set_lifetime(self, lifetime: str) -> None:
        """"persistent", "pool" or "process" from now on, as in Pool.create()."""
        check(library().penstock_object_set_lifetime(self._open.handle, _lifetime(lifetime)))

    def lifetime(self) -> str:
        """As it is now, whoever has changed it."""
        found = ctypes.c_int32()
        check(library().penstock_object_lifetime(self._open.handle, found))
        return next(name for name, number in _LIFETIMES.items() if number == found.value)

    def publish(self, offset: int = 0, bytes: Optional[int] = None) -> None:
        """What this process stored to these bytes is at the device on return, before anything that it publishes
        later. Whole lines travel: no other host may have written to them meanwhile."""
        check(library().penstock_publish(self._pool_handle(), self._at(offset, bytes), self._length(offset, bytes)))

    def observe(self, offset: int = 0, bytes: Optional[int] = None) -> None:
        """Loads of these bytes made after it see what others had published before it. Stores of this process to these
        lines that it has not published may be lost."""
        check(library().penstock_observe(self._pool_handle(), self._at(offset, bytes), self._length(offset, bytes)))

    def write(self, source: ArrayLike, offset: int = 0) -> None:
        """Copies an array (or what NumPy makes one of) here past the caches and publishes it: faster than storing and
        `publish()` for more than a few lines."""
        data = np.ascontiguousarray(source)
        at = self._at(offset, data.nbytes)
        check(library().penstock_write(self._pool_handle(), at, data.ctypes.data, data.nbytes))

    def read(self, shape: Optional[Shape] = None, dtype: DTypeLike = np.uint8, offset: int = 0) -> NDArray[Any]:
        """Observes, and copies out to private memory: as `array()` otherwise."""
        view = self.array(shape, dtype, offset)
        out = np.empty(view.shape, view.dtype)
        check(library().penstock_read(self._pool_handle(), out.ctypes.data, self._data + offset, out.nbytes))
        return out

    def barrier(self, participants: int, rank: int, offset: int = 0) -> Barrier:
        """Of Barrier.bytes(participants) from `offset` on, zero at first, opened once by each of the participants."""
        return self._holding(Barrier(made("barrier_open", self._open.handle, offset, participants, rank)))

    def lock(self, participants: int, rank: int, offset: int = 0) -> Lock:
        """Of Lock.bytes(participants) from `offset` on, zero at first. One process at a time acts as `rank`."""
        return self._holding(Lock(made("lock_open", self._open.handle, offset, participants, rank)))

    def doorbell(self, offset: int = 0) -> Doorbell:
        """Of Doorbell.bytes() from `offset` on, zero at first. One process rings."""
        return self._holding(Doorbell(made("doorbell_open", self._open.handle, offset)))

    def close(self) -> None:
        for part in list(self._parts):
            part.close()
        super().close()

    def destroy(self) -> None:
        """The name disappears and the space is given back: all users must have agreed not to touch it, and those of
        other hosts must have published what they stored. Errors: NotFoundError, when another has destroyed it;
        BufferError, while arrays or tensors of it live."""
        owned = self._open
        if self._views:
            raise BufferError(f"{self._what} cannot be destroyed: {len(self._views)} arrays or tensors of its memory "
                              "are in use; delete them first")
        self.close()
        check(library().penstock_arena_destroy(owned.release()))

    def _pool_handle(self) -> int:
        pool = self._open.needs
        assert pool is not None
        return pool.handle

    def _holding(self, part: _Part) -> _Part:
        self._parts.add(part)
        return part

    def _at(self, offset: int, bytes: Optional[int]) -> int:
        self._length(offset, bytes)
        self._open
        return self._data + offset

    def _length(self, offset: int, bytes: Optional[int]) -> int:
        length = len(self) - offset if bytes is None else bytes
        if offset < 0 or length < 0 or offset + length > len(self):
            raise InvalidArgumentError(f"{length} bytes from offset {offset} on do not lie in {self._what} of "
                                       f"{len(self)} bytes")
        return length


class Barrier(_Handle):
    """What each participant published before is visible to what each observes after.

    >>> import penstock.pool
    >>> spec = penstock.pool.create_temporary()
    >>> with penstock.pool.attach(spec) as pool, pool.create("meet", penstock.pool.Barrier.bytes(1)) as meet:
    ...     meet.barrier(participants=1, rank=0).wait()
    >>> penstock.pool.remove(spec)
    """

    def __init__(self, handle: int) -> None:
        super().__init__(_Owned(handle, library().penstock_barrier_close), "the barrier")

    @staticmethod
    def bytes(participants: int) -> int:
        return int(library().penstock_barrier_bytes(participants))

    def wait(self, timeout: Optional[float] = None) -> None:
        """Blocks until all have entered this round. Errors: DeadlineError and PeerDeadError, which name the
        participant."""
        check(library().penstock_barrier_wait(self._open.handle, _nanoseconds(timeout)))


class Lock(_Handle):
    """Lamport's bakery; the dead are passed over. `with lock:` holds it; what earlier holders published is visible to
    observes made after.

    >>> import penstock.pool
    >>> spec = penstock.pool.create_temporary()
    >>> with penstock.pool.attach(spec) as pool, pool.create("turn", penstock.pool.Lock.bytes(2)) as turn:
    ...     with turn.lock(participants=2, rank=0):
    ...         pass
    >>> penstock.pool.remove(spec)
    """

    def __init__(self, handle: int) -> None:
        super().__init__(_Owned(handle, library().penstock_lock_close), "the lock")

    @staticmethod
    def bytes(participants: int) -> int:
        return int(library().penstock_lock_bytes(participants))

    def acquire(self, timeout: Optional[float] = None, *, shared: bool = False) -> None:
        """Not recursive. `shared`: together with all others that share it, for a process that only reads. Errors:
        DeadlineError."""
        take = library().penstock_lock_acquire_shared if shared else library().penstock_lock_acquire
        check(take(self._open.handle, _nanoseconds(timeout)))

    def release(self) -> None:
        """Only its holder calls it."""
        library().penstock_lock_release(self._open.handle)

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Doorbell(_Handle):
    """A number that only grows, with one ringer and any number of listeners.

    >>> import penstock.pool
    >>> spec = penstock.pool.create_temporary()
    >>> with penstock.pool.attach(spec) as pool, pool.create("bell", penstock.pool.Doorbell.bytes()) as bell:
    ...     doorbell = bell.doorbell()
    ...     doorbell.ring(3)
    ...     doorbell.wait(2)
    ...     doorbell.read()
    3
    >>> penstock.pool.remove(spec)
    """

    def __init__(self, handle: int) -> None:
        super().__init__(_Owned(handle, library().penstock_doorbell_close), "the doorbell")

    @staticmethod
    def bytes() -> int:
        return int(library().penstock_doorbell_bytes())

    def ring(self, number: int) -> None:
        """What this process published before is visible to what a listener observes once it has read `number`."""
        library().penstock_doorbell_ring(self._open.handle, number)

    def read(self) -> int:
        """The latest number, 0 at first. One access to the device."""
        return int(library().penstock_doorbell_read(self._open.handle))

    def wait(self, number: int, timeout: Optional[float] = None, ringer: int = 0) -> None:
        """Until the number is at least `number`. `ringer`: the token of its Pool.info(), whose death ends the wait;
        0: unknown. Errors: DeadlineError, PeerDeadError."""
        check(library().penstock_doorbell_wait(self._open.handle, number, _nanoseconds(timeout), ringer))


def _mode(name: Optional[str]) -> int:
    if name not in _MODES:
        raise InvalidArgumentError(f"mode '{name}': it is one of {', '.join(str(mode) for mode in _MODES if mode)}")
    return _MODES[name]


def _lifetime(name: str) -> int:
    if name not in _LIFETIMES:
        raise InvalidArgumentError(f"lifetime '{name}': it is one of {', '.join(_LIFETIMES)}")
    return _LIFETIMES[name]


def _nanoseconds(timeout: Optional[float]) -> int:
    if timeout is None:
        return 0
    if not timeout >= 0:
        raise InvalidArgumentError(f"a timeout of {timeout} s: 0 or more is needed")
    return min(max(1, round(timeout * 1e9)), (1 << 63) - 1) if timeout != float("inf") else (1 << 63) - 1


def _object_info(found: _library.ObjectInfo) -> ObjectInfo:
    return ObjectInfo(found.name.decode(errors="replace"), found.bytes, found.offset, found.generation)
