"""Run by python_test.py: arguments of penstock.pool and penstock.persist that do not fit into their C types."""

import datetime
import os
from fractions import Fraction

import numpy as np

import penstock.pool
from penstock import InvalidArgumentError
from penstock.pool import Barrier, Lock

BEYOND = (-1, 1 << 64, (1 << 64) + 4096)


def raises(kind, function, *arguments, **more):
    try:
        found = function(*arguments, **more)
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__} of {arguments} {more}, but {found!r}")


def integers(pool, owned):
    spec = os.environ["PENSTOCK_POOL"]
    saved = pool.checkpoint("saved", 4096, lifetime="pool")
    saved.begin()
    bell = owned.doorbell()
    for number in BEYOND:
        for call in (lambda: pool.create("big", number), lambda: pool.create("big", 64, alignment=number),
                     lambda: pool.transaction(number), lambda: pool.checkpoint("big", number),
                     lambda: owned.array(number), lambda: owned.array((2, number)), lambda: owned.array(1, offset=number),
                     lambda: owned.read(1, offset=number), lambda: owned.write([1.0], number),
                     lambda: owned.publish(number), lambda: owned.observe(0, number), lambda: owned.doorbell(number),
                     lambda: bell.ring(number), lambda: bell.wait(number), lambda: bell.wait(0, ringer=number),
                     lambda: saved.write([1.0], number), lambda: saved.read(1, offset=number), lambda: saved.read(number),
                     lambda: saved.commit(number), lambda: penstock.pool.create(spec, number, overwrite=True)):
            raises(InvalidArgumentError, call)
    for number in (-1, 1 << 32, (1 << 32) + 2):
        for call in (lambda: owned.barrier(number, 0), lambda: owned.lock(2, number), lambda: Barrier.bytes(number),
                     lambda: Lock.bytes(number), lambda: penstock.pool.create_temporary(number),
                     lambda: penstock.pool.attach(rank=(1 << 31) + abs(number)),
                     lambda: penstock.pool.create(spec, 1 << 25, max_nodes=number, overwrite=True)):
            raises(InvalidArgumentError, call)
    for number in (0o1777, 0o10000, 1 << 31, (1 << 32) - 1):
        assert "at most 777" in raises(InvalidArgumentError, penstock.pool.create, spec, 1 << 25, permissions=number,
                                       overwrite=True)
    for value in (64.0, "64", None, np.float64(64), [64]):
        raises(TypeError, pool.create, "big", value)
        raises(TypeError, bell.ring, value)
        raises(TypeError, Barrier.bytes, value)
    raises(TypeError, owned.array, 2.0)
    raises(TypeError, owned.array, (2, "2"))
    assert "rank is 5.0" in raises(TypeError, owned.barrier, 2, 5.0)
    assert bell.read() == 0 and [found.name for found in pool.objects() if found.name == "big"] == []
    saved.destroy()


def integers_of_numpy(pool):
    with pool.create("of numpy", np.int64(4096)) as owned:
        assert owned.array(np.int32(4), "f8").shape == (4,)
        assert owned.array((np.int64(2), 3), "f8", offset=np.uint8(64)).shape == (2, 3)
        owned.write(np.arange(3.0), np.int16(128))
        assert owned.read(np.int64(3), "f8", np.int64(128)).tolist() == [0, 1, 2]
        owned.publish(np.int64(0), np.int64(64))
        bell = owned.doorbell(np.int64(512))
        bell.ring(np.uint64(5))
        bell.wait(np.int64(5), timeout=np.float32(1))
        for span in (np.timedelta64(5), np.timedelta64(5, "ms"), datetime.timedelta(seconds=5)):
            assert "a number of seconds is needed" in raises(TypeError, bell.wait, 5, timeout=span)
        owned.lock(np.int64(2), np.int64(0), offset=np.int64(1024)).acquire()
        owned.destroy()


def sources_that_overlap(owned):
    """Arrays of the object itself are copied as between any two places."""
    for length, source, to in ((1000, 0, 10), (1000, 10, 0), (6000, 0, 64), (6000, 64, 0), (100, 0, 1), (64, 0, 64)):
        values = (np.arange(8192) % 251).astype("u1")
        owned.write(values)
        owned.write(owned.array(length, offset=source), to)
        values[to:to + length] = values[source:source + length].copy()
        assert (owned.read() == values).all(), (length, source, to)
    owned.write(np.zeros(8192, "u1"))


def names(pool):
    pool.create("a", 64).close()
    for call in (lambda: pool.open("a\0-backup"), lambda: pool.create("a\0-backup", 64),
                 lambda: pool.checkpoint("a\0-backup"), lambda: penstock.pool.attach(os.environ["PENSTOCK_POOL"] + "\0x"),
                 lambda: penstock.pool.remove(os.environ["PENSTOCK_POOL"] + "\0x"),
                 lambda: penstock.pool.create("shm:penstock-never\0x", 1 << 25),
                 lambda: penstock.pool.attach(job="job\0x"), lambda: pool.open("lone \ud800")):
        raises(InvalidArgumentError, call)
    for value in (None, b"a", 5):
        raises(TypeError, pool.open, value)
        raises(TypeError, penstock.pool.remove, value)
    pool.create("caf\udce9", 64).close()  # bytes that are no UTF-8, as os.fsdecode() has them
    assert "caf\udce9" in [found.name for found in pool.objects()]
    pool.open("caf\udce9").destroy()
    pool.open("a").destroy()


def kinds(owned):
    aligned = np.dtype([("a", "u1"), ("b", "f8")], align=True)
    packed = np.dtype([("a", "u1"), ("b", "f8", (2,))])
    for kind in (aligned, packed, np.dtype("3f4"), np.dtype("(2,3)i2"), np.dtype(">u4"), np.dtype("U5"), np.dtype("S3"),
                 np.dtype("M8[us]"), np.dtype("c16"), np.dtype("?")):
        ours, theirs = owned.array(3, kind), np.zeros(3, kind)
        assert (ours.shape, ours.dtype, ours.strides) == (theirs.shape, theirs.dtype, theirs.strides), kind
        ours[...] = theirs
        assert (owned.read(3, kind) == theirs).all()
    assert owned.array(3, aligned).dtype.names == ("a", "b")
    for kind in (object, np.dtype([("a", "O")]), "V0", "U0"):
        raises(InvalidArgumentError, owned.array, 1, kind)
        raises(InvalidArgumentError, owned.read, 1, kind)
    owned.write(np.zeros(2, "u8"))
    for value in ([{}, {}], None, [object()], np.array([None])):
        raises(InvalidArgumentError, owned.write, value)
    assert owned.read(2, "u8").tolist() == [0, 0]
    assert owned.array((0, 5), "f8").shape == (0, 5)
    values = owned.array(4, "3f4")
    values[1:3] = 2
    assert owned.read(12, "f4").tolist() == [0] * 3 + [2] * 6 + [0] * 3


def timeouts(owned):
    bell, lock = owned.doorbell(), owned.lock(2, 0, offset=1024)
    for value in (float("nan"), -1, -0.5, float("-inf"), np.float64("nan")):
        raises(InvalidArgumentError, bell.wait, 1, value)
        raises(InvalidArgumentError, lock.acquire, value)
    for value in ("5", [5], 5j):
        raises(TypeError, bell.wait, 1, value)
    for value in (0, 1e-12, Fraction(1, 1000), np.float16(0.001), True / 1000):
        raises(TimeoutError, bell.wait, 1, value)
    for value in (1e300, float("inf"), 10**400, 2.0**63, np.float32("inf")):
        with owned.lock(2, 1, offset=1024) as other:
            other.release()
            other.acquire(value)


def main():
    with penstock.pool.attach() as pool:
        with pool.create("object", 8192) as owned:
            integers(pool, owned)
            sources_that_overlap(owned)
            kinds(owned)
            timeouts(owned)
            owned.destroy()
        integers_of_numpy(pool)
        names(pool)
        assert pool.objects() == []
    print("border: ok")


if __name__ == "__main__":
    main()
