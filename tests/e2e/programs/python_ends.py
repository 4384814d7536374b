"""Run by python_test.py: handles that are closed while other threads use them, in children, and when the interpreter ends."""

import atexit
import gc
import os
import signal
import sys
import threading
import time

kept = {}


def late():
    """Registered before Penstock is imported, so that it runs last."""
    if "late" in kept:
        print("late:", kept["late"](), flush=True)


atexit.register(late)

import penstock.pool
from penstock import Error, InvalidArgumentError


def outcome(call):
    try:
        return call()
    except Error as error:
        return error


def waits(pool):
    """By name, the handle and a wait in it that nothing ends."""
    owned = pool.create("waits", 4096)
    bell, barrier, lock = owned.doorbell(), owned.barrier(2, 0, 64), owned.lock(2, 0, 256)
    kept["holder"] = pool.open("waits").lock(2, 1, 256)
    kept["holder"].acquire()
    kept["owned"] = owned
    return {"doorbell": (bell, lambda: bell.wait(5, float("inf"))),
            "barrier": (barrier, lambda: barrier.wait(float("inf"))),
            "lock": (lock, lambda: lock.acquire(float("inf")))}


def ends_by(wait, close, patience=0.05):
    """How `wait` ends on a thread of its own when `close` is called meanwhile; None if `close` came too early."""
    ended = []
    waiting = threading.Thread(target=lambda: ended.append(outcome(wait)))
    waiting.start()
    time.sleep(patience)
    close()
    waiting.join()
    return ended[0] if "closed while" in str(ended[0]) else None


def close():
    """Closes the part, its object, or all: the waiting thread gets an error."""
    for name in ("doorbell", "barrier", "lock"):
        for what in ("part", "object", "all"):
            for patience in (0.05, 0.5, 5):  # until the thread was in its wait
                pool = penstock.pool.attach()
                handle, wait = waits(pool)[name]
                owned = kept.pop("owned")
                closes = {"part": [handle], "object": [owned], "all": [handle, owned, pool]}[what]
                ended = ends_by(wait, lambda: [each.close() for each in closes], patience)
                kept.clear()
                owned.close()
                pool.close()
                with penstock.pool.attach() as again:
                    again.open("waits").destroy()
                if ended is not None:
                    break
            assert ended.status == "unavailable", (name, what, ended)
            assert isinstance(outcome(wait), InvalidArgumentError)
    print("close: ok")


def ctrl_c():
    """In each wait, with the default handler and with the program's own; a handler that returns changes nothing."""
    pool = penstock.pool.attach()
    for name, (_, wait) in waits(pool).items():
        timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        try:
            wait()
        except KeyboardInterrupt:
            continue
        finally:
            timer.join()
        raise AssertionError(name)

    class Ended(Exception):
        pass

    def end(*_):
        raise Ended

    bell = kept["owned"].doorbell(1024)
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        bell.wait(5, float("inf"))
        raise AssertionError("not heard")
    except Ended:
        pass
    for number in range(200):
        pool.create(f"of many {number}", 64).close()

    def list_for_ever():
        while True:
            pool.objects()

    gc.collect()
    gc.disable()  # what a handler raises while garbage is collected, Python forgets
    for turn in range(30):
        signal.setitimer(signal.ITIMER_REAL, 0.0005 * (turn + 1))
        try:
            list_for_ever()
        except Ended:
            pass
    signal.signal(signal.SIGALRM, lambda *_: bell.ring(5))
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    bell.wait(5, float("inf"))
    print("ctrl-c: ok")


def in_child(body):
    child = os.fork()
    if child == 0:
        status = 1
        try:
            body()
            status = 0
        except BaseException as error:
            print("child:", repr(error), file=sys.stderr, flush=True)
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def fork():
    """A child is refused, and a handle that it closes stays open in its parent."""
    pool = penstock.pool.attach()
    owned = pool.create("forked", 8192)
    lock, other = owned.lock(2, 0), owned.lock(2, 1)
    bell, barrier = owned.doorbell(128), owned.barrier(2, 0, 256)
    saved = pool.checkpoint("saved", 4096, lifetime="pool")
    values = owned.array(8, "i8", 4096)
    tx = pool.transaction()

    def refused():
        calls = (pool.info, pool.objects, pool.durability, pool.transaction, pool.collect, lambda: pool.open("forked"),
                 lambda: pool.create("x", 64), lambda: pool.checkpoint("saved"), owned.array, owned.read, owned.publish,
                 owned.observe, owned.lifetime, lambda: owned.write([1]), lambda: owned.set_lifetime("pool"),
                 owned.doorbell, lambda: owned.barrier(2, 1), lambda: owned.lock(2, 1), owned.destroy, lock.acquire,
                 lock.release, bell.read, lambda: bell.wait(1), lambda: bell.ring(1), barrier.wait, saved.info, saved.begin,
                 saved.read, saved.flush, saved.commit, saved.destroy, lambda: saved.write([1]), lambda: tx.add(owned),
                 tx.__enter__)
        for call in calls:
            try:
                call()
            except InvalidArgumentError as error:
                assert "forked from" in str(error), error
            else:
                raise AssertionError(f"{call} works in a child")
        with penstock.pool.attach() as own:
            assert len(own.open("forked")) == 8192  # by itself

    def leaves():
        lock.__exit__(None, None, None)
        for each in (lock, bell, barrier, saved, owned, pool):
            each.close()

    with lock:
        with tx:
            tx.add(values)
            values[:] = 1
            in_child(refused)
            in_child(leaves)
            assert values[0] == 1
        assert isinstance(outcome(lambda: other.acquire(0.05)), TimeoutError), "a child gave the lock back"
    other.acquire()
    assert values.tolist() == [1] * 8
    print("fork: ok")


def leave_with_block_in_child():
    """The child ends by SystemExit, within the parent's `with`."""
    pool = penstock.pool.attach()
    owned = pool.create("forked", 4096)
    with owned.lock(2, 0):
        child = os.fork()
        if child == 0:
            sys.exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert isinstance(outcome(lambda: owned.lock(2, 1).acquire(0.05)), TimeoutError)
    print("leave: ok")


def at_exit():
    """An array, its object and its pool are used by a handler that runs after all others."""
    pool = penstock.pool.attach()
    owned = pool.create("late", 4096)
    array = owned.array(512, "i8")
    array[:] = 1

    def last():
        owned.publish()
        return int(array.sum()), len(pool.objects()), int(owned.read(1, "i8")[0])

    kept["late"] = last


class Keeps:
    def __init__(self, array):
        self.array = array

    def __del__(self):
        os.write(1, b"del: %d\n" % int(self.array.sum()))


def in_del():
    pool = penstock.pool.attach()
    keeps = Keeps(pool.create("del", 4096).array(512, "i8"))
    keeps.itself = keeps  # found by the last collection only
    keeps.array[:] = 1


def daemons():
    """One loads from an array when the process ends, others wait."""
    pool = penstock.pool.attach()
    array = pool.create("daemon", 32 << 20).array(None, "u1")
    loads = threading.Event()

    def load():
        while True:
            array.sum()
            loads.set()

    threading.Thread(target=load, daemon=True).start()
    for _, wait in waits(pool).values():
        threading.Thread(target=wait, daemon=True).start()
    loads.wait()
    print("daemons: ok")


def leave_in_order():
    """Handles that are open at the end are given back: a lock, a transaction, an object of this process."""
    pool = penstock.pool.attach()
    kept["all"] = pool
    owned = pool.create("stays", 4096)
    kept["lock"] = owned.lock(2, 0)
    kept["lock"].acquire()
    kept["mine"] = pool.create("mine", 64, lifetime="process")
    kept["tx"] = pool.transaction()
    kept["tx"].__enter__()
    kept["array"] = owned.array(8, "i8", 1024)
    kept["tx"].add(kept["array"])
    kept["array"][:] = 5
    kept["itself"] = kept


if __name__ == "__main__":
    globals()[sys.argv[1]]()
