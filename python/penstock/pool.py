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
doorbell by one at a time. Closing one ends the waits of other threads in it. Waits hear Ctrl-C. A child of os.fork()
attaches by itself: its parent's handles are refused there. Integers may be those of NumPy. Errors: those of
penstock.errors, which are also Python's own (LookupError, TimeoutError, ...), and TypeError. Source: cMPI, sections 3.1,
3.4 and 3.5.
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
    call("pool_create", spec,
         options(_library.PoolOptions, bytes=bytes, mode=_mode(mode), max_processes=max_processes, max_nodes=max_nodes,
                 permissions=permissions, group=group, overwrite=bool(overwrite)))


def create_temporary(ranks: int = 1) -> str:
    """A pool in /dev/shm for the `ranks` processes of a program on one host. It grows to PENSTOCK_SIZE; by default to
    4 GB, or 512 MB a rank, or half of /dev/shm. Gives its SPEC; whoever made it removes it.

    >>> import penstock.pool
    >>> spec = penstock.pool.create_temporary()
    >>> penstock.pool.remove(spec)
    """
    spec = ctypes.create_string_buffer(256)
    call("pool_create_temporary", ranks, spec, len(spec))
    return spec.value.decode()


def default_spec() -> str:
    """What PENSTOCK_POOL names; "" where it is not set."""
    return str(call("default_spec").decode(errors="surrogateescape"))


def remove(spec: str, force: bool = False) -> None:
    """Removes a pool's files and segments. Refuses while living processes are attached, unless `force`."""
    call("pool_remove", spec, force)


def attach(spec: Optional[str] = None, *, mode: Optional[str] = None, rank: int = -1,
           job: Optional[str] = None) -> Pool:
    """Maps a pool; `spec` None: PENSTOCK_POOL. A `mode` that is given must be the pool's. `rank` and `job` are shown
    by `penstock ps`. Milliseconds however large the pool is. Errors: NotFoundError, PermissionDeniedError, Error of
    status wrong_format, mismatch or no_slots."""
    given = options(_library.AttachOptions, mode=_mode(mode), rank=rank, job=job)
    return Pool(made("pool_attach", spec, given, close="pool_detach"))


_Part = TypeVar("_Part", bound=Handle)


class Pool(Handle):
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

    def __init__(self, owned: Owned) -> None:
        super().__init__(owned, "the pool")
        self._undo_logs: dict[int, list[Owned]] = {}  # idle ones, by their bytes

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def info(self) -> PoolInfo:
        """Walks the object space: for people and tests."""
        found = _library.PoolInfo()
        call("pool_info", self._open, found)
        fields = {name: getattr(found, name) for name in PoolInfo.__dataclass_fields__}
        return PoolInfo(**{**fields, "mode": str(_MODE_NAMES.get(found.mode, found.mode))})

    def create(self, name: str, bytes: int, *, lifetime: str = "pool", alignment: int = LINE_BYTES,
               zero: bool = True, exist_ok: bool = False) -> Object:
        """An object with a name of 1 to 63 bytes. `lifetime` "pool": until it is destroyed; "process": until this
        process detaches or dies; "persistent": as "pool", and it stays when hosts are switched off, where the pool can
        keep it. `exist_ok`: one of that name and size is opened instead. Takes the pool's lock. Errors:
        AlreadyExistsError, NoSpaceError, InvalidArgumentError; Error of status unavailable, for "persistent"."""
        if size("bytes", bytes) == 0:
            raise InvalidArgumentError(f"object '{name}' of 0 bytes: at least 1 is needed")
        given = options(_library.ObjectOptions, lifetime=_lifetime(lifetime), alignment=alignment,
                        skip_zeroing=not zero, open_existing=bool(exist_ok))
        return self._object("arena_create", name, bytes, given)

    def open(self, name: str) -> Object:
        """An object that exists. What its creator published before is not implied: `observe()`. Errors:
        NotFoundError."""
        return self._object("arena_open", name)

    def _object(self, by: str, *arguments: Any) -> Object:
        return Object(made(by, self._open, *arguments, close="arena_close", needs=self._open))

    def objects(self) -> list[ObjectInfo]:
        """All objects, by name."""
        found: list[ObjectInfo] = []

        def visit(info: Any) -> None:
            found.append(_object_info(info.contents))

        call("arena_list", self._open, callback(_library.Visit, visit), None)
        return found

    def durability(self) -> str:
        """What the pool keeps when hosts are switched off: "none" (/dev/shm), "file" (what was committed, by msync) or
        "device" (what has reached it)."""
        return _DURABILITIES[call("pool_durability", self._open)]

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

    def _undo_log(self, log_bytes: int) -> Owned:
        pool = self._open
        try:
            return self._undo_logs[log_bytes].pop()  # threads may call it: each gets one of its own
        except LookupError:
            return made("undo_log_open", pool, log_bytes, close="undo_log_close", needs=pool)

    def _keep_undo_log(self, log_bytes: int, owned: Owned) -> None:
        if self._owned is not None:  # else it would keep a closed pool attached
            self._undo_logs.setdefault(log_bytes, []).append(owned)

    def close(self) -> None:
        self._undo_logs.clear()
        super().close()

    def collect(self, dry_run: bool = False) -> tuple[int, int, int]:
        """Frees what dead processes have left: how many of them, their objects, and the bytes. `dry_run` only
        counts."""
        processes, objects, count = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_uint64()
        call("arena_collect", self._open, dry_run, processes, objects, count)
        return processes.value, objects.value, count.value


class Object(Handle):
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

    def __init__(self, owned: Owned) -> None:
        found = _library.ObjectInfo()
        call("object_info", owned, found)
        super().__init__(owned, "the object")
        self.info = _object_info(found)
        self._what = f"object '{self.info.name}'"
        self._data = int(found.data)
        self._views: weakref.WeakSet[View] = weakref.WeakSet()
        self._parts: set[weakref.ref[Handle]] = set()  # not a WeakSet: other threads may add to it in a close()

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
        return np.ndarray(sizes, kind, np.asarray(view))  # arrays of arrays and aligned records: as NumPy has them

    def tensor(self, shape: Optional[Shape] = None, dtype: Optional[torch.dtype] = None,
               offset: int = 0) -> torch.Tensor:
        """The same as a torch tensor, by DLPack; `dtype` None: torch.uint8."""
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
        """"persistent", "pool" or "process" from now on, as in Pool.create()."""
        call("object_set_lifetime", self._open, _lifetime(lifetime))

    def lifetime(self) -> str:
        """As it is now, whoever has changed it."""
        found = ctypes.c_int32()
        call("object_lifetime", self._open, found)
        return next(name for name, number in _LIFETIMES.items() if number == found.value)

    def publish(self, offset: int = 0, bytes: Optional[int] = None) -> None:
        """What this process stored to these bytes is at the device on return, before anything that it publishes
        later. Whole lines travel: no other host may have written to them meanwhile."""
        self._move("publish", offset, bytes)

    def observe(self, offset: int = 0, bytes: Optional[int] = None) -> None:
        """Loads of these bytes made after it see what others had published before it. Stores of this process to these
        lines that it has not published may be lost."""
        self._move("observe", offset, bytes)

    def write(self, source: ArrayLike, offset: int = 0) -> None:
        """Copies an array (or what NumPy makes one of) here past the caches and publishes it: faster than storing and
        `publish()` for more than a few lines."""
        owned = self._open
        data = np.ascontiguousarray(source)
        checked_kind(data.dtype)
        offset, length = self._range(offset, data.nbytes)
        to = self._data + offset
        if abs(to - data.ctypes.data) < length:
            data = data.copy()  # it lies in this object and overlaps the target: the library copies forwards
        call("write", owned.needs, to, data.ctypes.data, length)

    def read(self, shape: Optional[Shape] = None, dtype: DTypeLike = np.uint8, offset: int = 0) -> NDArray[Any]:
        """Observes, and copies out to private memory: as `array()` otherwise."""
        owned = self._open
        view = self.array(shape, dtype, offset)
        out = np.empty(view.shape, view.dtype)
        call("read", owned.needs, out.ctypes.data, view.ctypes.data, out.nbytes)
        return out

    def barrier(self, participants: int, rank: int, offset: int = 0) -> Barrier:
        """Of Barrier.bytes(participants) from `offset` on, zero at first, opened once by each of the participants."""
        return self._part(Barrier, "barrier", offset, participants, rank)

    def lock(self, participants: int, rank: int, offset: int = 0) -> Lock:
        """Of Lock.bytes(participants) from `offset` on, zero at first. One process at a time acts as `rank`."""
        return self._part(Lock, "lock", offset, participants, rank)

    def doorbell(self, offset: int = 0) -> Doorbell:
        """Of Doorbell.bytes() from `offset` on, zero at first. One process rings."""
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
        """The name disappears and the space is given back: all users must have agreed not to touch it, and those of
        other hosts must have published what they stored. Errors: NotFoundError, when another has destroyed it;
        BufferError, while arrays or tensors of it live."""
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
        """Offset and length of bytes that lie in the object."""
        offset = size("offset", offset)
        length = max(0, len(self) - offset) if bytes is None else size("bytes", bytes)
        if offset + length > len(self):
            raise InvalidArgumentError(f"{length} bytes from offset {offset} on do not lie in {self._what} of "
                                       f"{len(self)} bytes")
        return offset, length


class Barrier(Waiting):
    """What each participant published before is visible to what each observes after.

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
        """Blocks until all have entered this round. Errors: DeadlineError and PeerDeadError, which name the
        participant."""
        call("barrier_wait", self._open, timeout)


class Lock(Waiting):
    """Lamport's bakery; the dead are passed over. `with lock:` holds it; what earlier holders published is visible to
    observes made after.

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
        """Not recursive. `shared`: together with all others that share it, for a process that only reads. Errors:
        DeadlineError."""
        call("lock_acquire_shared" if shared else "lock_acquire", self._open, timeout)

    def release(self) -> None:
        """Errors: InvalidArgumentError, when this handle does not hold it."""
        call("lock_release", self._open)

    def __enter__(self) -> Lock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        if self._usable:  # else it was closed, which released it, or this is a forked child, which does not hold it
            self.release()


class Doorbell(Waiting):
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

    @staticmethod
    def bytes() -> int:
        return int(call("doorbell_bytes"))

    def ring(self, number: int) -> None:
        """What this process published before is visible to what a listener observes once it has read `number`. Errors:
        InvalidArgumentError (smaller than the number that this object rang last, at first than the doorbell's)."""
        call("doorbell_ring", self._open, number)

    def read(self) -> int:
        """The latest number, 0 at first. One access to the device."""
        return int(call("doorbell_read", self._open))

    def wait(self, number: int, timeout: Optional[float] = None, ringer: int = 0) -> None:
        """Until the number is at least `number`. `ringer`: the token of its Pool.info(), whose death ends the wait;
        0: unknown. Errors: DeadlineError, PeerDeadError."""
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
