"""What python_test.py runs: penstock.pool used by one process and by two."""

import gc
import os
import signal
import subprocess
import sys

import numpy as np
import torch

import penstock
import penstock.pool

ROWS, COLUMNS = 64, 257
TURNS = 50


def raises(kind, words, function, *arguments, **more):
    try:
        function(*arguments, **more)
    except kind as error:
        assert words in str(error), error
        assert isinstance(error, penstock.Error) or isinstance(error, BufferError), error
    else:
        raise AssertionError(f"no {kind.__name__}")


def wrong():
    pool = penstock.pool.attach()
    field = pool.create("field", 1 << 16)
    array = field.array((16, 16), "float64")
    tensor = field.tensor((16, 16), torch.float64)
    assert tensor.data_ptr() == array.ctypes.data
    raises(BufferError, "2 arrays or tensors", field.destroy)
    raises(ValueError, "needs 2097152 bytes, and object 'field' has 65536", field.array, (512, 512), "float64")
    raises(ValueError, "multiple of 8", field.array, 1, "float64", offset=4)
    raises(ValueError, "the shape is -1", field.array, -1)
    raises(ValueError, "Python objects", field.array, 1, object)
    raises(ValueError, "do not lie", field.publish, 0, 1 << 20)
    raises(ValueError, "does not exist", field.barrier, 2, 2)
    raises(LookupError, 'no object "nothing"', pool.open, "nothing")
    raises(FileExistsError, "exists", pool.create, "field", 5)
    raises(MemoryError, "no space", pool.create, "large", 1 << 40)
    raises(ValueError, "at least 1", pool.create, "empty", 0)
    raises(ValueError, "1 to 63", pool.create, "x" * 64, 1)
    raises(LookupError, "absent", penstock.pool.attach, "shm:penstock-nothing")
    raises(ValueError, "hardware, software, uncached", penstock.pool.attach, mode="fast")
    raises(ValueError, "0 or more", field.barrier(2, 0, offset=4096).wait, -1)
    raises(TimeoutError, "misses 1 of 2 participants", field.barrier(2, 0, offset=8192).wait, 0.05)
    pool.close()  # the memory stays while it is in use
    raises(ValueError, "the pool is closed", pool.info)
    array[3, 4] = 5
    field.close()
    raises(ValueError, "object 'field' is closed", field.array)
    del array
    gc.collect()
    assert tensor[3, 4] == 5
    if os.fork() == 0:  # the child's end changes nothing for us
        del tensor
        os._exit(0)
    os.wait()
    assert tensor.sum() == 5
    del tensor
    gc.collect()
    print("wrong: ok")


def peer(*words, node):
    return subprocess.Popen([sys.executable, __file__, *words], env={**os.environ, "PENSTOCK_NODE": str(node)})


def two():
    with penstock.pool.attach() as pool:
        pool.create("matrix", ROWS * COLUMNS * 8).close()
        pool.create("bell", penstock.pool.Doorbell.bytes()).close()
        pool.create("turn", penstock.pool.Lock.bytes(2) + penstock.pool.Barrier.bytes(2) + 64).close()
    for process in (peer("reader", node=1), peer("writer", node=0)):
        assert process.wait() == 0


def take_turns(pool, rank):
    """Both add to one number under the lock."""
    with pool.open("turn") as turn:
        lock = turn.lock(2, rank)
        barrier = turn.barrier(2, rank, offset=penstock.pool.Lock.bytes(2))
        at = penstock.pool.Lock.bytes(2) + penstock.pool.Barrier.bytes(2)
        sum_of_all = turn.array(1, "int64", at)
        barrier.wait()
        for _ in range(TURNS):
            with lock:
                turn.observe(at, 8)
                sum_of_all += rank + 1
                turn.publish(at, 8)
        barrier.wait()
        assert turn.read(1, "int64", at)[0] == TURNS * 3, sum_of_all
        barrier.wait()


def writer():
    pool = penstock.pool.attach(rank=0)
    matrix, bell = pool.open("matrix"), pool.open("bell").doorbell()
    for turn in range(1, 4):
        matrix.array((ROWS, COLUMNS), "float64")[:] = np.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS) * turn
        matrix.publish()
        bell.ring(turn)
        while bell.read() == turn and matrix.read(1, "float64")[0] != -turn:
            pass
    take_turns(pool, 0)
    os.write(1, b"writer: ok\n")


def reader():
    pool = penstock.pool.attach(rank=1)
    matrix, bell = pool.open("matrix"), pool.open("bell").doorbell()
    tensor = matrix.tensor((ROWS, COLUMNS), torch.float64)
    for turn in range(1, 4):
        bell.wait(turn)
        matrix.observe()
        assert torch.equal(tensor, torch.arange(ROWS * COLUMNS).reshape(ROWS, COLUMNS).double() * turn)
        matrix.write(np.array([-turn], "float64"))
    take_turns(pool, 1)
    os.write(1, b"reader: ok\n")


def dead():
    with penstock.pool.attach() as pool, pool.create("meet", penstock.pool.Barrier.bytes(2)) as meet:
        barrier = meet.barrier(2, 0)
        child = peer("meets", node=0)
        barrier.wait()
        child.send_signal(signal.SIGKILL)
        child.wait()
        raises(ConnectionError, "died", barrier.wait)
    print("dead: ok")


def meets():
    penstock.pool.attach().open("meet").barrier(2, 1).wait()
    signal.pause()


if __name__ == "__main__":
    {"wrong": wrong, "two": two, "reader": reader, "writer": writer, "dead": dead, "meets": meets}[sys.argv[1]]()
