"""What a program may do wrong with transactions and checkpoints of Python."""

import os
import pickle
import sys
import threading

import numpy as np

import penstock.pool
from penstock.errors import Error, InvalidArgumentError


def expect(error, call):
    try:
        call()
    except error:
        return
    sys.exit(f"no {error.__name__} from {call}")


def threads_have_a_log_each(pool):
    """Logs are used again: two threads never get the same."""
    sys.setswitchinterval(1e-6)
    objects = [pool.create(f"of a thread {number}", 64) for number in range(4)]
    errors = []

    def work(owned):
        values = owned.array(8, "int64")
        try:
            for turn in range(150):
                with pool.transaction(16 << 10) as tx:
                    tx.add(values)
                    values[:] = turn
        except BaseException as error:  # the test is told of any
            errors.append(error)

    workers = [threading.Thread(target=work, args=(owned,)) for owned in objects]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.setswitchinterval(0.005)
    assert not errors, errors
    assert all((owned.array(8, "int64") == 149).all() for owned in objects)


def a_forked_child_ends_nothing(pool):
    values = pool.create("forked", 64).array(8, "int64")
    with pool.transaction() as tx:
        tx.add(values)
        values[:] = 1
        child = os.fork()
        if child == 0:
            try:
                with tx:
                    pass
            except InvalidArgumentError:
                pass
            tx.__exit__(SystemExit, SystemExit(), None)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert values[0] == 1, "the child has undone it"
    assert values[0] == 1


def views_outlive_their_transaction(pool):
    with pool.create("viewed", 64) as owned:
        values = owned.array(8, "int64")
    with pool.transaction() as tx:
        tx.add(values[2:4])
        values[2:4] = 3
    expect(InvalidArgumentError, lambda: tx.add(values))
    expect(InvalidArgumentError, lambda: tx.__enter__())
    assert values.tolist() == [0, 0, 3, 3, 0, 0, 0, 0]
    with pool.transaction() as tx:
        expect(InvalidArgumentError, lambda: tx.add(np.zeros(8)))
        for strange in (bytes(8), [0.0], None, pool, memoryview(values)):
            expect(TypeError, lambda: tx.add(strange))
        tx.add(values)
        expect(Error, lambda: pool.open("viewed").destroy())
    pool.open("viewed").destroy()


def nothing_is_pickled(pool):
    saved = pool.checkpoint("pickled", 4096, lifetime="pool")
    for handle in (pool.transaction(), saved, pool):
        expect(TypeError, lambda: pickle.dumps(handle))


def no_python_objects_in_checkpoints(pool):
    saved = pool.checkpoint("kinds", 4096, lifetime="pool")
    saved.begin()
    expect(InvalidArgumentError, lambda: saved.write(np.array([object()])))
    saved.write(np.arange(8))
    saved.commit()
    expect(InvalidArgumentError, lambda: saved.read(2, object))


def a_pool_may_be_closed_in_a_transaction(spec):
    pool = penstock.pool.attach(spec)
    owned = pool.create("closed", 64)
    with pool.transaction() as tx:
        tx.add(owned, 0, 8)
        owned.array(8)[:] = 1
        pool.close()
    owned.close()
    del tx
    with penstock.pool.attach(spec) as other:
        hidden = other.info().objects - len(other.objects())
        assert hidden == 2, f"{hidden} in place of the table of logs and a version: the log is still there"
        assert other.open("closed").array(8)[0] == 1
    return pool


def what_transactions_keep_is_out_of_reach(pool):
    """If a user destroyed a living process's log, its next transaction would write into another object."""
    mine = pool.create("mine", 64)
    with pool.transaction() as tx, penstock.pool.attach(os.environ["PENSTOCK_POOL"]) as other:
        tx.add(mine, 0, 8)
        token = pool.info().token
        assert not [found.name for found in other.objects() if found.name.startswith("penstock.")]
        for name in ("penstock.writers", f"penstock.log.{token:x}.0", f"penstock.version.{mine.info.generation:x}"):
            expect(InvalidArgumentError, lambda name=name: other.open(name))
            expect(InvalidArgumentError, lambda name=name: other.create(name, 64))
            expect(InvalidArgumentError, lambda name=name: other.checkpoint(name, 64, lifetime="pool"))
            expect(InvalidArgumentError, lambda name=name: other.checkpoint(name))


def main():
    spec = os.environ["PENSTOCK_POOL"]
    kept = a_pool_may_be_closed_in_a_transaction(spec)
    with penstock.pool.attach(spec) as pool:
        threads_have_a_log_each(pool)
        what_transactions_keep_is_out_of_reach(pool)
        a_forked_child_ends_nothing(pool)
        views_outlive_their_transaction(pool)
        nothing_is_pickled(pool)
        no_python_objects_in_checkpoints(pool)
    kept.close()
    print("persist: ok")


if __name__ == "__main__":
    main()
