"""Habits of PyTorch programs: callbacks that call collectives, groups beside a gloo world, groups of the same name again.

    torch_habits.py callbacks | beside | again | later | timeouts | groups | light_groups
"""

import datetime
import os
import sys
import time

import torch
import torch.distributed as dist

import penstock.pool
import penstock.torch  # noqa: F401

TIMEOUT = datetime.timedelta(seconds=20)


def callbacks():
    """What is done when a collective is over may call others and wait for them, as PowerSGD's hook does."""
    dist.init_process_group("penstock", timeout=TIMEOUT)
    for wait in (lambda t: dist.all_reduce(t), lambda t: dist.all_reduce(t, async_op=True).get_future().wait()):
        inner = torch.ones(10)

        def then(_, inner=inner, wait=wait):
            wait(inner)
            return inner.sum()
        future = dist.all_reduce(torch.ones(1000), async_op=True).get_future().then(then)
        assert float(future.wait()) == 10 * dist.get_world_size()
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(40, 40), torch.nn.Linear(40, 1)))
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
    model.register_comm_hook(powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2), powerSGD_hook.powerSGD_hook)
    for _ in range(5):
        model(torch.ones(4, 40)).sum().backward()


def beside():
    """Rows and columns of ranks, whose first groups do not meet."""
    dist.init_process_group("gloo", timeout=TIMEOUT)
    rank = dist.get_rank()
    groups = [dist.new_group(ranks, backend="penstock", timeout=TIMEOUT) for ranks in ([0, 1], [2, 3], [0, 2], [1, 3])]
    for group in (groups[rank // 2], groups[2 + rank % 2]):
        values = torch.ones(3)
        dist.all_reduce(values, group=group)
        assert values.tolist() == [2.0] * 3


def again():
    """Under torchrun the store outlives the groups."""
    for turn in range(3):
        dist.init_process_group("penstock", timeout=TIMEOUT)
        values = torch.ones(3) * (dist.get_rank() + turn)
        dist.all_reduce(values)
        assert values.tolist() == [2.0 * turn + 1] * 3
        dist.send(values, 1) if dist.get_rank() == 0 else dist.recv(values, 0)
        if turn < 2:
            dist.destroy_process_group()


def later():
    """A group that was destroyed says so, whatever is asked of it."""
    dist.init_process_group("penstock", timeout=TIMEOUT)
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    dist.barrier()
    dist.destroy_process_group()
    for call in (lambda: backend.send([torch.ones(1)], 1 - int(os.environ["RANK"]), 0), lambda: backend.allreduce([torch.ones(1)]).wait()):
        try:
            call()
        except RuntimeError as error:
            assert "was destroyed" in str(error), error
        else:
            raise AssertionError("no error")


def timeouts():
    """A timeout that no clock can count means "for ever", and a short one is short."""
    days = datetime.timedelta(days=1)
    dist.init_process_group("penstock", timeout=365 * 100 * days)
    rank = dist.get_rank()
    group = dist.new_group(timeout=datetime.timedelta.max)
    backend = group._get_backend(torch.device("cpu"))
    for limit in (datetime.timedelta(milliseconds=2**31), 365 * 290 * days, 365 * 2000 * days, datetime.timedelta.max,
                  datetime.timedelta(0), datetime.timedelta(seconds=-1)):
        for late in (0, 1):  # the other one waits for it
            backend.options._timeout = limit
            numbers, into = torch.ones(3), torch.zeros(1)
            time.sleep(0.02 * (rank == late))
            dist.all_reduce(numbers, group=group)
            time.sleep(0.02 * (rank == late))
            work = dist.all_reduce(numbers, group=group, async_op=True)
            work.wait(limit)
            time.sleep(0.02 * (rank == late))
            if rank == late:
                dist.send(numbers[:1], 1 - rank, group=group)
            else:
                dist.recv(into, 1 - rank, group=group)
                assert into == 4, into
    backend.options._timeout = datetime.timedelta(milliseconds=50)
    if rank == 0:
        try:
            dist.recv(torch.zeros(1), 1, group=group)
        except RuntimeError as error:
            assert "rank 1" in str(error) and "within 50 ms" in str(error), error
        else:
            raise AssertionError("a message that nobody has sent")
    dist.barrier()


def groups():
    """As many groups as large trainings make, each with calls that take slots of the pool."""
    dist.init_process_group("penstock", timeout=TIMEOUT)
    made = []
    for _ in range(50):
        made.append(dist.new_group(timeout=TIMEOUT))
        values = torch.ones(20_000)
        dist.all_reduce(values, group=made[-1])
        assert values.unique().tolist() == [dist.get_world_size()]


def light_groups():
    """Groups that make short calls alone take no slots of the pool. One takes them in its first long call."""
    pool = penstock.pool.attach(os.environ["PENSTOCK_POOL"])
    dist.init_process_group("penstock", timeout=TIMEOUT)

    def used():
        dist.barrier()
        bytes_used = pool.info().object_bytes_used
        dist.barrier()
        return bytes_used

    before, made = used(), [dist.new_group(timeout=TIMEOUT) for _ in range(100)]
    for group in made:
        values = torch.ones(3)
        dist.all_reduce(values, group=group)
        dist.barrier(group=group)
        assert values.unique().tolist() == [dist.get_world_size()]
    light = used()
    assert 0 < (light - before) / len(made) < 64e3 * dist.get_world_size(), (before, light)
    values = torch.ones(100_000)
    dist.all_reduce(values, group=made[7])
    assert values.unique().tolist() == [dist.get_world_size()]
    assert used() - light > 500e3, (light, used())
    pool.close()


{"callbacks": callbacks, "beside": beside, "again": again, "later": later, "timeouts": timeouts, "groups": groups,
 "light_groups": light_groups}[sys.argv[1]]()
if dist.is_initialized():
    dist.destroy_process_group()
os.write(1, b"habits: ok\n")
