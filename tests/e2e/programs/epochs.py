"""Random epochs on one window, checked against a model that goes through them one after the other.

All ranks draw the same plan from the seed: in each round one kind of epoch, and for each block of each
rank's memory what is done to it, and by whom. What a round does to a block is defined whatever the
order: one writer, or operations that commute, or one winner.
"""
import argparse
import os
import random

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, ranks = comm.rank, comm.size
SHORT, LONG = 4, 3000  # cells of a block
BLOCKS = [(SHORT * i, SHORT) for i in range(12)] + [(SHORT * 12, LONG)]
CELLS = SHORT * 12 + LONG
EPOCHS = ["fence", "pscw", "lock", "lock_all"]
USES = ["put", "strided", "get", "sum", "max", "fetch", "swap", "own", "nothing"]

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--seed", type=int, default=int(os.environ.get("TEST_SEED", "1")))
parser.add_argument("--rounds", type=int, default=60)
parser.add_argument("--without", choices=USES, nargs="*", default=[])
options = parser.parse_args()
SEED, ROUNDS = comm.bcast(options.seed), options.rounds
DRAWN = [use for use in USES if use not in options.without]

strided = MPI.INT64_T.Create_vector(SHORT // 2, 1, 2).Commit()
window = MPI.Win.Allocate(8 * CELLS, 8, comm=comm)
memory = np.frombuffer(window.tomemory(), "i8")
model = np.zeros((ranks, CELLS), "i8")


class Round:
    """The plan of one round, the same on all ranks, and what this rank got."""

    def __init__(self, number):
        self.number = number
        draw = random.Random(f"{SEED}.{number}")
        self.epoch = draw.choice(EPOCHS)
        self.plan = {}  # (target, first cell) -> use, cells, origins
        for target in range(ranks):
            others = [r for r in range(ranks) if r != target or self.epoch != "pscw"]
            for first, cells in BLOCKS:
                use = draw.choice(DRAWN)
                if cells == LONG and use not in ("put", "get", "sum", "own"):
                    use = "nothing"
                one_only = use in ("put", "strided", "get")
                origins = [draw.choice(others)] if one_only else others
                self.plan[target, first] = use, cells, origins
        self.own_choice = random.Random(f"{SEED}.{number}.{rank}")
        self.got = {}

    def value(self, who, target, first):
        return 1_000_000 * self.number + 10_000 * who + 100 * target + first

    def blocks_of(self, target):
        mine = [(first, use, cells) for (where, first), (use, cells, origins) in self.plan.items()
                if where == target and rank in origins]
        self.own_choice.shuffle(mine)
        return mine

    def store_own(self):
        for (target, first), (use, cells, _) in self.plan.items():
            if use == "own" and target == rank:
                memory[first:first + cells] = self.value(rank, target, first)

    def operate(self, target):
        for first, use, cells in self.blocks_of(target):
            self.operation(target, first, use, cells)

    def operation(self, target, first, use, cells):
        value = np.full(cells, self.value(rank, target, first), "i8")
        into = np.full(cells, -1, "i8")
        self.got[target, first] = value, into  # both live until the epoch has ended
        if use == "put":
            window.Put(value, target, first)
        elif use == "strided":
            window.Put([value, SHORT // 2, MPI.INT64_T], target, (first, 1, strided))
        elif use == "get":
            window.Get(into, target, first)
        elif use == "sum":
            window.Accumulate(value, target, first, MPI.SUM)
        elif use == "max":
            window.Accumulate(value, target, first, MPI.MAX)
        elif use == "fetch":
            window.Fetch_and_op(value[:1], into[:1], target, first, MPI.SUM)
        elif use == "swap":
            expected = model[target, first:first + 1].copy()
            self.got[target, first] = value, into, expected
            window.Compare_and_swap(value[:1], expected, into[:1], target, first)


def fence(plan):
    window.Fence(MPI.MODE_NOPRECEDE)
    plan.store_own()
    window.Fence()
    for target in range(ranks):
        plan.operate(target)
    window.Fence(MPI.MODE_NOSUCCEED)


def pscw(plan):
    others = comm.group.Excl([rank])
    plan.store_own()
    window.Post(others)
    window.Start(others)
    for target in plan.own_choice.sample(range(ranks), ranks):
        if target != rank:
            plan.operate(target)
    window.Complete()
    window.Wait()


def own_under_lock(plan):
    window.Lock(rank, MPI.LOCK_EXCLUSIVE)
    plan.store_own()
    window.Unlock(rank)
    comm.Barrier()


def lock(plan):
    own_under_lock(plan)
    for target in plan.own_choice.sample(range(ranks), ranks):
        kind = plan.own_choice.choice([MPI.LOCK_SHARED, MPI.LOCK_EXCLUSIVE])
        window.Lock(target, kind)
        plan.operate(target)
        if plan.own_choice.random() < 0.3:
            window.Flush(target)
        window.Unlock(target)


def lock_all(plan):
    own_under_lock(plan)
    window.Lock_all()
    for target in plan.own_choice.sample(range(ranks), ranks):
        plan.operate(target)
        flush = plan.own_choice.choice([window.Flush, window.Flush_local, None])
        if flush is not None:
            flush(target)
    window.Unlock_all()


def expect(plan, found, wanted, what):
    if not np.array_equal(found, wanted):
        at = int(np.flatnonzero(np.asarray(found) != np.asarray(wanted))[0])
        print(f"rank {rank}, seed {SEED}, round {plan.number} ({plan.epoch}), {what}: "
              f"cell {at} is {found[at]}, not {wanted[at]}", flush=True)
        comm.Abort(1)


def advance(plan):
    """Takes the model through the round, and looks at what this rank got."""
    olds = comm.allgather({place: int(kept[1][0]) for place, kept in plan.got.items()
                           if plan.plan[place][0] in ("fetch", "swap")})
    for (target, first), (use, cells, origins) in plan.plan.items():
        block = model[target, first:first + cells]
        values = [plan.value(origin, target, first) for origin in origins]
        what = f"{use} at {first} of rank {target}"
        if use == "own":
            block[:] = plan.value(target, target, first)
        elif use == "put":
            block[:] = values[0]
        elif use == "strided":
            block[::2] = values[0]
        elif use == "get" and rank == origins[0]:
            expect(plan, plan.got[target, first][1], block, what)
        elif use == "sum":
            block += sum(values)
        elif use == "max":
            block[:] = np.maximum(block, max(values))
        elif use == "fetch":
            steps = sorted((olds[o][target, first], plan.value(o, target, first)) for o in origins)
            found = [old for old, _ in steps] + [block[0] + sum(values)]
            wanted = block[0] + np.cumsum([0] + [step for _, step in steps])
            expect(plan, found, wanted, what)
            block[0] += sum(values)
        elif use == "swap":
            winners = [o for o in origins if olds[o][target, first] == block[0]]
            expect(plan, [len(winners)], [1], what + ", winners")
            block[0] = plan.value(winners[0], target, first)


window.Lock(rank, MPI.LOCK_EXCLUSIVE)
memory[:] = 0  # MPI promises nothing about it
window.Unlock(rank)
comm.Barrier()
for number in range(1, ROUNDS + 1):
    plan = Round(number)
    globals()[plan.epoch](plan)
    comm.Barrier()
    advance(plan)
    window.Lock(rank, MPI.LOCK_EXCLUSIVE)
    expect(plan, memory.copy(), model[rank], "own memory")
    window.Unlock(rank)
    comm.Barrier()

strided.Free()
window.Free()
if rank == 0:
    print(f"epochs: ok: {ROUNDS} rounds, {ranks} ranks, seed {SEED}", flush=True)
