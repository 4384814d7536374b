"""Pools, and their objects as NumPy arrays and torch tensors.

    import penstock.pool

    pool = penstock.pool.attach()                       # PENSTOCK_POOL
    field = pool.create("field", 8 << 20)               # on another host: pool.open("field")
    grid = field.array((1024, 1024), "float64")         # memory of the pool itself, no copy
    grid[0, :] = 1.0
    field.publish()                                     # makes it visible to other hosts

Memory: an array is ordinary memory of this process, but caches are not coherent between hosts. Write, then `publish()`;
`observe()`, then read. At any moment at most one process may write to a line of 64 bytes. Units: bytes and seconds; a
timeout of None means PENSTOCK_TIMEOUT_MS. Threads: all functions are thread-safe, but only one thread at a time may use
a given barrier, lock or doorbell. Closing one ends the waits of other threads on it. Ctrl-C ends a wait. A child of
os.fork() must attach itself; it cannot use its parent's handles. Integers of NumPy are accepted. Errors: those of
penstock.errors, which also derive from built-in exceptions (LookupError, TimeoutError, ...), and TypeError. Source:
cMPI, sections 3.1, 3.4 and 3.5.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Optional, Sequence, TypeVar, Union

import numpy as np

from penstock import _library
from penstock._arrays import View, checked_kind, sizes_of
from penstock._border import size
from penstock._handles import Handle, Owned, Waiting, made
from penstock._library import call, options
from penstock._signals import callback
from penstock.errors import InvalidArgumentError
from penstock.persist import LOG_BYTES, Checkpoint, Transaction, checkpoint_of

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
    """A snapshot of a pool's state. `node`: this process's host in the pool; `token`: identifies this attachment."""

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
    """`offset`: the object's offset in the pool, the same in every process. `generation`: distinguishes the object from
    a later one with the same name."""

    name: str
    bytes: int
    offset: int
    generation: int


def create(spec: str, bytes: int = 0, *, mode: Optional[str] = None, max_processes: int = 0, max_nodes: int = 0,
           permissions: int = 0o600, group: Optional[str] = None, overwrite: bool = False) -> None:
    """Makes a pool, without attaching to it. `spec`: "/dev/daxX.Y", a file's path or "shm:NAME"; several, joined by
    commas, are interleaved. `bytes`: the size; 0 uses all of a /dev/daxX.Y. `mode`: "software" (None), "hardware" or
    "uncached".
    Errors: AlreadyExistsError, InvalidArgumentError, NoSpaceError, PermissionDeniedError.

    >>> import penstock.pool
    >>> penstock.pool.create("shm:penstock-doc", 32 << 20, overwrite=True)
    >>> with penstock.pool.attach("shm:penstock-doc") as pool:
    ...     pool.info().mode
    'software'
    >>> penstock.pool.remove("shm:penstock-doc")
    """
    call("pool_create", spec,
         options(_library.PoolOptions, bytes=bytes, mode=_mode(mode), max_processes=max_processes, max_nodes=max_nodes,
                 permissions=permissions, group=group, overwrite=bool(overwrite)))


def create_temporary(ranks: int = 1) -> str:
    """Makes a pool in /dev/shm for the `ranks` processes of a program on one host. It grows to PENSTOCK_SIZE; by default
    to 4 GB, or 512 MB a rank, or half of /dev/shm. Returns its SPEC. The caller must remove the pool.

    >>> import penstock.pool
    >>> spec = penstock.pool.create_temporary()
    >>> penstock.pool.remove(spec)
    """
    spec = ctypes.create_string_buffer(256)
    call("pool_create_temporary", ranks, spec, len(spec))
    return spec.value.decode()


def default_spec() -> str:
    """The pool that PENSTOCK_POOL names; "" if the variable is not set."""
    return str(call("default_spec").decode(errors="surrogateescape"))


def remove(spec: str, force: bool = False) -> None:
    """Removes a pool's files and segments. Refused while living processes are attached, unless `force`."""
    call("pool_remove", spec, force)


def attach(spec: Optional[str] = None, *, mode: Optional[str] = None, rank: int = -1,
           job: Optional[str] = None) -> Pool:
    """Attaches to a pool and maps it; `spec` None: PENSTOCK_POOL. `mode`, if given, must match the pool's. `penstock ps`
    shows `rank` and `job`. Takes milliseconds, whatever the pool's size. Errors: NotFoundError, PermissionDeniedError,
    Error with status wrong_format, mismatch or no_slots."""
    given = options(_library.AttachOptions, mode=_mode(mode), rank=rank, job=job)
    return Pool(made("pool_attach", spec, given, close="pool_detach"))


_Part = TypeVar("_Part", bound=Handle)


class Pool(Handle):
    """An attached pool. The end of `with` detaches, or the closing of the last object if that comes later.

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

    def __init__(self, owned: Owned) -> None:
        super().__init__(owned, "the pool")
        self._undo_logs: dict[int, list[Owned]] = {}  # idle logs, keyed by size

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def info(self) -> PoolInfo:
        """Describes the pool. Walks the whole object space, so it is for people and tests."""
        found = _library.PoolInfo()
        call("pool_info", self._open, found)
        fields = {name: getattr(found, name) for name in PoolInfo.__dataclass_fields__}
        return PoolInfo(**{**fields, "mode": str(_MODE_NAMES.get(found.mode, found.mode))})

    def create(self, name: str, bytes: int, *, lifetime: str = "pool", alignment: int = LINE_BYTES,
               zero: bool = True, exist_ok: bool = False) -> Object:
        """Creates an object with a name of 1 to 63 bytes. `lifetime`: "pool" lasts until it is destroyed; "process" until
        this process detaches or dies; "persistent" like "pool", and also survives power-off if the pool can keep it.
        `exist_ok`: opens an existing object of that name and size. Takes the pool's lock. Errors: AlreadyExistsError,
        NoSpaceError, InvalidArgumentError; Error with status unavailable for "persistent"."""
        if size("bytes", bytes) == 0:
            raise InvalidArgumentError(f"object '{name}' of 0 bytes: at least 1 is needed")
        given = options(_library.ObjectOptions, lifetime=_lifetime(lifetime), alignment=alignment,
                        skip_zeroing=not zero, open_existing=bool(exist_ok))
        return self._object("arena_create", name, bytes, given)

    def open(self, name: str) -> Object:
        """Opens an existing object. Does not observe its data: call `observe()`. Errors: NotFoundError."""
        return self._object("arena_open", name)

    def _object(self, by: str, *arguments: Any) -> Object:
        return Object(made(by, self._open, *arguments, close="arena_close", needs=self._open))

    def objects(self) -> list[ObjectInfo]:
        """Lists all objects, sorted by name."""
        found: list[ObjectInfo] = []

        def visit(info: Any) -> None:
            found.append(_object_info(info.contents))

        call("arena_list", self._open, callback(_library.Visit, visit), None)
        return found

    def durability(self) -> str:
        """What survives power-off: "none" (/dev/shm), "file" (data that were committed, by msync) or "device" (data that
        have reached the device)."""
        return _DURABILITIES[call("pool_durability", self._open)]

    def transaction(self, log_bytes: int = LOG_BYTES) -> Transaction:
        """`with pool.transaction() as tx`: see penstock.persist.Transaction. `log_bytes`: size of the undo log, which
        must hold all old bytes of the transaction. Logs are reused. Errors: NoSpaceError; Error with status no_slots."""
        return Transaction(self, log_bytes)

    def checkpoint(self, name: str, bytes: Optional[int] = None, *, lifetime: str = "persistent") -> Checkpoint:
        """Opens the checkpoint of that name, or makes one with two copies of `bytes` each; `bytes` None: only opens. See
        penstock.persist.Checkpoint. Errors: AlreadyExistsError, NoSpaceError, NotFoundError; Error with status
        unavailable if the pool does not survive power-off: lifetime "pool" at least outlives processes."""
        return checkpoint_of(self, name, bytes, _lifetime(lifetime))

    def _undo_log(self, log_bytes: int) -> Owned:
        pool = self._open
        try:
            return self._undo_logs[log_bytes].pop()  # atomic, so each thread gets a log of its own
        except LookupError:
            return made("undo_log_open", pool, log_bytes, close="undo_log_close", needs=pool)

    def _keep_undo_log(self, log_bytes: int, owned: Owned) -> None:
        if self._owned is not None:  # a kept log would keep a closed pool attached
            self._undo_logs.setdefault(log_bytes, []).append(owned)

    def close(self) -> None:
        self._undo_logs.clear()
        super().close()

    def collect(self, dry_run: bool = False) -> tuple[int, int, int]:
        """Reclaims the objects of dead processes. Returns the numbers of processes, objects and bytes. `dry_run` only
        counts."""
        processes, objects, count = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_uint64()
        call("arena_collect", self._open, dry_run, processes, objects, count)
        return processes.value, objects.value, count.value


class Object(Handle):
    """A named piece of a pool. The end of `with` closes the handle, or the release of the last array if that comes
    later; the object stays in the pool. Closing publishes pending stores, and closes the object's barriers, locks and
    doorbells.

    >>> import penstock.pool
    >>> spec = penstock.pool.create_temporary()
    >>> with penstock.pool.attach(spec) as pool, pool.create("numbers", 4096) as numbers:
    ...     numbers.write([1.5, 2.5])
    ...     numbers.array(2, "float64").sum()
    np.float64(4.0)
    >>> penstock.pool.remove(spec)
    """

    def __init__(self, owned: Owned) -> None:
        found = _library.ObjectInfo()
        call("object_info", owned, found)
        super().__init__(owned, "the object")
        self.info = _object_info(found)
        self._what = f"object '{self.info.name}'"
        self._data = int(found.data)
        self._views: weakref.WeakSet[View] = weakref.WeakSet()
        self._parts: set[weakref.ref[Handle]] = set()  # no WeakSet: other threads may add during close()

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
        """The object's memory from `offset` (bytes) on, as an array of that shape; None: one dimension up to the object's
        end. Makes no copy, and neither publishes nor observes. Errors: InvalidArgumentError if it does not fit."""
        owned = self._open
        kind = checked_kind(np.dtype(dtype))
        offset = size("offset", offset)
        if offset > len(self) or offset % kind.alignment != 0:
            raise InvalidArgumentError(f"offset {offset} in {self._what} of {len(self)} bytes: a multiple of "
                                       f"{kind.alignment} inside it is needed for {kind}")
        sizes = ((len(self) - offset) // kind.itemsize,) if shape is None else sizes_of(shape)
        needed = math.prod(sizes) * kind.itemsize
        if needed > len(self) - offset:
            raise InvalidArgumentError(f"an array {sizes} of {kind} needs {needed} bytes, and {self._what} has "
                                       f"{len(self) - offset} from offset {offset} on")
        view = View(owned, self._data + offset, needed)
        self._views.add(view)
        return np.ndarray(sizes, kind, np.asarray(view))  # NumPy handles nested arrays and aligned records

    def tensor(self, shape: Optional[Shape] = None, dtype: Optional[torch.dtype] = None,
               offset: int = 0) -> torch.Tensor:
        """Like array(), but returns a torch tensor, by DLPack; `dtype` None: torch.uint8."""
        import torch

        kind = dtype or torch.uint8
        element = torch.empty(0, dtype=kind).element_size()
        offset = size("offset", offset)
        if offset % element != 0:
            raise InvalidArgumentError(f"offset {offset} in {self._what}: a multiple of {element} is needed for {kind}")
        sizes = (max(0, len(self) - offset) // element,) if shape is None else sizes_of(shape)
        flat = torch.utils.dlpack.from_dlpack(self.array(math.prod(sizes) * element, np.uint8, offset))
        return flat.view(kind).reshape(sizes)

    def __dlpack__(self, **options: Any) -> Any:
        return self.array().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # a CPU

    def set_lifetime(self, lifetime: str) -> None:
        """Changes the lifetime to "persistent", "pool" or "process"; see Pool.create()."""
        call("object_set_lifetime", self._open, _lifetime(lifetime))

    def lifetime(self) -> str:
        """The current lifetime; other processes may have changed it."""
        found = ctypes.c_int32()
        call("object_lifetime", self._open, found)
        return next(name for name, number in _LIFETIMES.items() if number == found.value)

    def publish(self, offset: int = 0, bytes: Optional[int] = None) -> None:
        """Writes this process's stores to these bytes to the device, before anything that it publishes later. Writes
        whole lines: no other host may have written to these lines meanwhile."""
        self._move("publish", offset, bytes)

    def observe(self, offset: int = 0, bytes: Optional[int] = None) -> None:
        """Makes later loads of these bytes see data that others published before this call. Unpublished stores of this
        process to these lines may be lost."""
        self._move("observe", offset, bytes)

    def write(self, source: ArrayLike, offset: int = 0) -> None:
        """Copies an array (or anything that NumPy converts to one) to the object past the caches and publishes it. For
        more than a few lines this is faster than stores and `publish()`."""
        owned = self._open
        data = np.ascontiguousarray(source)
        checked_kind(data.dtype)
        offset, length = self._range(offset, data.nbytes)
        to = self._data + offset
        if abs(to - data.ctypes.data) < length:
            data = data.copy()  # it overlaps the target, and the library copies forwards
        call("write", owned.needs, to, data.ctypes.data, length)

    def read(self, shape: Optional[Shape] = None, dtype: DTypeLike = np.uint8, offset: int = 0) -> NDArray[Any]:
        """Observes, and returns a copy in private memory. Arguments as for `array()`."""
        owned = self._open
        view = self.array(shape, dtype, offset)
        out = np.empty(view.shape, view.dtype)
        call("read", owned.needs, out.ctypes.data, view.ctypes.data, out.nbytes)
        return out

    def barrier(self, participants: int, rank: int, offset: int = 0) -> Barrier:
        """Opens a barrier at `offset`. It takes Barrier.bytes(participants) bytes, which must be zero at first. Each
        participant opens it once."""
        return self._part(Barrier, "barrier", offset, participants, rank)

    def lock(self, participants: int, rank: int, offset: int = 0) -> Lock:
        """Opens a lock at `offset`. It takes Lock.bytes(participants) bytes, which must be zero at first. Only one
        process at a time may be `rank`."""
        return self._part(Lock, "lock", offset, participants, rank)

    def doorbell(self, offset: int = 0) -> Doorbell:
        """Opens a doorbell at `offset`. It takes Doorbell.bytes() bytes, which must be zero at first. Only one process
        may ring."""
        return self._part(Doorbell, "doorbell", offset)

    def close(self) -> None:
        self._close_parts()
        super().close()

    def _close_parts(self) -> None:
        for found in list(self._parts):
            part = found()
            if part is not None:
                part.close()

    def destroy(self) -> None:
        """Removes the name and frees the space. No process may use the object any more, and processes of other hosts must
        have published their stores. Errors: NotFoundError if another process has destroyed it; BufferError while arrays
        or tensors of it exist."""
        owned = self._open
        if self._views:
            raise BufferError(f"{self._what} cannot be destroyed: {len(self._views)} arrays or tensors of its memory "
                              "are in use; delete them first")
        self._close_parts()
        call("arena_remove", owned)
        self.close()

    def _part(self, kind: Callable[[Owned, str], _Part], name: str, *arguments: Any) -> _Part:
        owned = self._open
        part = kind(made(f"{name}_open", owned, *arguments, close=f"{name}_close", needs=owned), name)
        self._parts.add(weakref.ref(part, self._parts.discard))
        return part

    def _move(self, by: str, offset: int, bytes: Optional[int]) -> None:
        owned = self._open
        offset, length = self._range(offset, bytes)
        call(by, owned.needs, self._data + offset, length)

    def _range(self, offset: int, bytes: Optional[int]) -> tuple[int, int]:
        """Checks a range and returns its offset and length."""
        offset = size("offset", offset)
        length = max(0, len(self) - offset) if bytes is None else size("bytes", bytes)
        if offset + length > len(self):
            raise InvalidArgumentError(f"{length} bytes from offset {offset} on do not lie in {self._what} of "
                                       f"{len(self)} bytes")
        return offset, length


class Barrier(Waiting):
    """A barrier. What participants publish before it is visible to what they observe after it.

    >>> import penstock.pool
    >>> spec = penstock.pool.create_temporary()
    >>> with penstock.pool.attach(spec) as pool, pool.create("meet", penstock.pool.Barrier.bytes(1)) as meet:
    ...     meet.barrier(participants=1, rank=0).wait()
    >>> penstock.pool.remove(spec)
    """

    @staticmethod
    def bytes(participants: int) -> int:
        return int(call("barrier_bytes", participants))

    def wait(self, timeout: Optional[float] = None) -> None:
        """Blocks until all participants have entered this round. Errors: DeadlineError and PeerDeadError, which name the
        participant."""
        call("barrier_wait", self._open, timeout)


class Lock(Waiting):
    """A lock: Lamport's bakery algorithm, which skips dead processes. `with lock:` holds it. What earlier holders
    published is visible to later observes.

    >>> import penstock.pool
    >>> spec = penstock.pool.create_temporary()
    >>> with penstock.pool.attach(spec) as pool, pool.create("turn", penstock.pool.Lock.bytes(2)) as turn:
    ...     with turn.lock(participants=2, rank=0):
    ...         pass
    >>> penstock.pool.remove(spec)
    """

    @staticmethod
    def bytes(participants: int) -> int:
        return int(call("lock_bytes", participants))

    def acquire(self, timeout: Optional[float] = None, *, shared: bool = False) -> None:
        """Acquires the lock; not recursive. `shared`: shares it with other readers, for a process that only reads.
        Errors: DeadlineError."""
        call("lock_acquire_shared" if shared else "lock_acquire", self._open, timeout)

    def release(self) -> None:
        """Releases the lock. Errors: InvalidArgumentError if this handle does not hold it."""
        call("lock_release", self._open)

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        if self._usable:  # closing has released it, and a forked child does not hold it
            self.release()


class Doorbell(Waiting):
    """A number that only increases, with one ringer and any number of listeners.

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

    @staticmethod
    def bytes() -> int:
        return int(call("doorbell_bytes"))

    def ring(self, number: int) -> None:
        """Sets the number. What this process published before is visible to the observes of listeners that have read
        `number`. Errors: InvalidArgumentError if `number` is smaller than the last one rung through this object, or, at
        the first ring, than the doorbell's number."""
        call("doorbell_ring", self._open, number)

    def read(self) -> int:
        """Returns the latest number, 0 at first. Takes one access to the device."""
        return int(call("doorbell_read", self._open))

    def wait(self, number: int, timeout: Optional[float] = None, ringer: int = 0) -> None:
        """Waits until the number is at least `number`. `ringer`: the ringing process's Pool.info().token, so that its
        death ends the wait; 0: unknown. Errors: DeadlineError, PeerDeadError."""
        call("doorbell_wait", self._open, number, timeout, ringer)


def _mode(name: Optional[str]) -> int:
    if name not in _MODES:
        raise InvalidArgumentError(f"mode '{name}': it is one of {', '.join(str(mode) for mode in _MODES if mode)}")
    return _MODES[name]


def _lifetime(name: str) -> int:
    if name not in _LIFETIMES:
        raise InvalidArgumentError(f"lifetime '{name}': it is one of {', '.join(_LIFETIMES)}")
    return _LIFETIMES[name]


def _object_info(found: _library.ObjectInfo) -> ObjectInfo:
    return ObjectInfo(found.name.decode(errors="surrogateescape"), found.bytes, found.offset, found.generation)
