"""Random collectives that block, do not block, or are persistent, between messages, on several communicators.

    nonblocking.py SEED ROUNDS

All ranks draw the same calls. Each then ends its requests in an order and by calls of its own: MPI_Wait, Waitall,
Waitany, Waitsome and the tests, with messages of the MPI in the same arrays. Results are compared with what MPI promises.
"""
import random
import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
draw = random.Random(int(sys.argv[1]))
own_draw = random.Random(int(sys.argv[1]) * 1000 + world.rank)
SIZES = [0, 1, 3, 17, 100, 511, 1000, 5000, 30000]


def values(rank, salt, count):
    return (np.arange(count, dtype="i8") * 7 + rank * 13 + salt * 5) % 101


def holes(count):
    """A type of elements 0, 2, 4, ... of an array of twice the length."""
    return MPI.INT64_T.Create_vector(count, 1, 2).Commit()


class Call:
    """One collective's buffers; fill() before each time, check() after it."""

    def __init__(self, comm, name):
        self.comm, self.name, self.n, self.rank = comm, name, comm.size, comm.rank
        self.root = draw.randrange(self.n)
        self.count = draw.choice(SIZES)
        self.counts = [draw.choice(SIZES[:7]) for _ in range(self.n)]
        self.in_place = draw.random() < 0.25
        self.holes = draw.random() < 0.3
        self.at = np.concatenate(([0], np.cumsum(self.counts)))
        self.type = None
        self.arguments = list(getattr(self, name.lower())())

    def call(self, form):
        method = {"blocking": self.name, "nonblocking": "I" + self.name.lower(), "persistent": self.name + "_init"}[form]
        made = getattr(self.comm, method)(*self.arguments)
        if self.type is not None:  # MPI keeps the type as long as it needs it
            self.type.Free()
        return made

    def fill(self, salt):
        self.salt = salt
        for buffer, value in self.brings(self.rank):
            buffer[:] = value
        for buffer in self.gets():
            buffer[:] = -1

    def check(self):
        for buffer, wanted in self.wanted():
            assert (buffer == wanted).all(), (self.name, self.salt, self.count, self.counts, self.in_place, self.holes,
                                              self.rank, buffer[:8], wanted[:8])

    # A rank's input, its buffer (None for another rank's input), and the expected result.
    def of(self, rank, count=None):
        return values(rank, self.salt, self.count if count is None else count)

    def brings(self, rank):
        return self._brings()

    def barrier(self):
        self._brings, self.gets, self.wanted = list, list, list
        return []

    def bcast(self):
        memory = np.zeros(2 * self.count if self.holes else self.count, "i8")
        data = memory[::2] if self.holes else memory
        is_root = self.rank == self.root
        self._brings = lambda: [(data, self.of(self.root))] if is_root else []
        self.gets = lambda: [] if is_root else [data]
        self.wanted = lambda: [(data, self.of(self.root))]
        if self.holes:
            self.type = holes(self.count)
            return [[memory, 1, self.type], self.root]
        return [memory, self.root]

    def reduction(self, wanted, root=None, blocks=None, own_blocks=None):
        """Sets up a reduction. `blocks`: elements of the input; `own_blocks`: this rank's part of the result."""
        length = self.count if blocks is None else blocks
        start, end = (0, length) if own_blocks is None else own_blocks
        gets = root is None or root == self.rank
        in_place = self.in_place and gets
        op, function = draw.choice([(MPI.SUM, np.add), (MPI.MAX, np.maximum), (MPI.MIN, np.minimum)])
        out = np.zeros(length if in_place else end - start, "i8")
        given = out if in_place else np.zeros(length, "i8")
        self._brings = lambda: [(given, self.of(self.rank, length))]
        self.gets = lambda: [out] if gets and not in_place else []

        def result():
            ranks = wanted()
            if not gets or not ranks:
                return []
            total = self.of(ranks[0], length)
            for rank in ranks[1:]:
                total = function(total, self.of(rank, length))
            return [(out[:end - start], total[start:end])]
        self.wanted = result
        return [MPI.IN_PLACE if in_place else given, out if gets else None, op]

    def everyone(self):
        return list(range(self.n))

    def allreduce(self):
        return self.reduction(self.everyone)

    def reduce(self):
        given, out, op = self.reduction(self.everyone, self.root)
        return [given, out, op, self.root]

    def scan(self):
        return self.reduction(lambda: self.everyone()[:self.rank + 1])

    def exscan(self):
        return self.reduction(lambda: self.everyone()[:self.rank])

    def reduce_scatter_block(self):
        part = (self.rank * self.count, (self.rank + 1) * self.count)
        given, out, op = self.reduction(self.everyone, None, self.n * self.count, part)
        return [given, [out, self.count, MPI.INT64_T] if given is MPI.IN_PLACE else out, op]

    def reduce_scatter(self):
        part = (self.at[self.rank], self.at[self.rank + 1])
        given, out, op = self.reduction(self.everyone, None, int(self.at[-1]), part)
        return [given, out, self.counts, op]

    def gathering(self, each, root=None):
        """Sets up MPI_Gather, MPI_Allgather and their forms with counts."""
        counts = self.counts if each else [self.count] * self.n
        at = np.concatenate(([0], np.cumsum(counts)))
        gets = root is None or root == self.rank
        in_place = self.in_place and gets
        out = np.zeros(int(at[-1]), "i8")
        own = out[at[self.rank]:at[self.rank + 1]]
        with_holes = self.holes and not in_place
        memory = np.zeros((2 if with_holes else 1) * counts[self.rank], "i8")
        given = own if in_place else memory[::2] if with_holes else memory
        self._brings = lambda: [(given, self.of(self.rank, counts[self.rank]))]
        self.gets = lambda: [out] if gets and not in_place else []
        self.wanted = lambda: [(out, np.concatenate([self.of(r, counts[r]) for r in range(self.n)]))] if gets else []
        sent = memory
        if with_holes:
            self.type = holes(counts[self.rank])
            sent = [memory, 1, self.type]
        got = [out, counts, MPI.INT64_T] if each else [out, self.count, MPI.INT64_T]
        return [MPI.IN_PLACE if in_place else sent, got if gets else None]

    def gather(self):
        return [*self.gathering(False, self.root), self.root]

    def gatherv(self):
        return [*self.gathering(True, self.root), self.root]

    def allgather(self):
        return self.gathering(False)

    def allgatherv(self):
        return self.gathering(True)

    def scattering(self, each):
        counts = self.counts if each else [self.count] * self.n
        at = np.concatenate(([0], np.cumsum(counts)))
        is_root = self.rank == self.root
        in_place = self.in_place and is_root
        given = np.zeros(int(at[-1]), "i8")
        own = slice(at[self.rank], at[self.rank + 1])
        out = given[own] if in_place else np.zeros(counts[self.rank], "i8")
        self._brings = lambda: [(given, self.of(self.root, len(given)))] if is_root else []
        self.gets = lambda: [] if in_place else [out]
        self.wanted = lambda: [(out, self.of(self.root, len(given))[own])]
        sent = [given, counts, MPI.INT64_T] if each else [given, self.count, MPI.INT64_T]
        return [sent if is_root else None, MPI.IN_PLACE if in_place else out, self.root]

    def scatter(self):
        return self.scattering(False)

    def scatterv(self):
        return self.scattering(True)

    def exchange(self, each):
        """Rank r sends counts[r] + counts[s] elements to rank s, or as many to each."""
        size = (lambda s, r: min(self.counts[s] + self.counts[r], 600)) if each else (lambda s, r: self.count)
        to = [size(self.rank, r) for r in range(self.n)]
        at = np.concatenate(([0], np.cumsum(to)))
        given, out = np.zeros(int(at[-1]), "i8"), np.zeros(int(at[-1]), "i8")
        first = out if self.in_place else given

        def part(sender, receiver):
            sizes = [size(sender, r) for r in range(self.n)]
            start = sum(sizes[:receiver])
            return values(sender, self.salt, sum(sizes))[start:start + sizes[receiver]]
        self._brings = lambda: [(first, self.of(self.rank, len(given)))]
        self.gets = lambda: [] if self.in_place else [out]
        self.wanted = lambda: [(out, np.concatenate([part(s, self.rank) for s in range(self.n)]))]
        pack = (lambda buffer: [buffer, to, MPI.INT64_T]) if each else (lambda buffer: [buffer, self.count, MPI.INT64_T])
        return [MPI.IN_PLACE if self.in_place else pack(given), pack(out)]

    def alltoall(self):
        return self.exchange(False)

    def alltoallv(self):
        return self.exchange(True)


class Message:
    """A message around a ring, carried by the MPI."""

    def __init__(self, comm, tag):
        count = draw.choice(SIZES)
        self.left, self.tag = (comm.rank - 1) % comm.size, tag
        self.sent, self.got = values(comm.rank, tag, count), np.zeros(count, "i8")
        self.requests = [comm.Irecv(self.got, self.left, tag), comm.Isend(self.sent, (comm.rank + 1) % comm.size, tag)]

    def check(self):
        assert (self.got == values(self.left, self.tag, len(self.got))).all(), ("message", self.tag)


def end_by_waits(requests):
    way = own_draw.randrange(9)
    if way == 0:
        MPI.Request.Waitall(requests)
    elif way == 1:
        while MPI.Request.Waitany(requests) != MPI.UNDEFINED:
            pass
    elif way == 2:
        while MPI.Request.Waitsome(requests) is not None:
            pass
    elif way == 3:
        while not MPI.Request.Testall(requests):
            pass
    elif way == 4:
        while True:
            index, flag = MPI.Request.Testany(requests)
            if flag and index == MPI.UNDEFINED:
                break
    elif way == 5:
        while MPI.Request.Testsome(requests) is not None:
            pass
    elif way == 6:
        for request in own_draw.sample(requests, len(requests)):
            request.Wait(MPI.Status())
    elif way == 7:
        for request in own_draw.sample(requests, len(requests)):
            while not request.Get_status():
                pass
            assert request.Test()
    else:
        half = own_draw.sample(range(len(requests)), len(requests) // 2)
        some = [requests[i] for i in half]
        MPI.Request.Waitall(some, [MPI.Status() for _ in some])
        for i, request in zip(half, some):
            requests[i] = request
        MPI.Request.Waitall(requests)


NAMES = ["Barrier", "Bcast", "Reduce", "Allreduce", "Scan", "Exscan", "Reduce_scatter", "Reduce_scatter_block", "Gather",
         "Gatherv", "Scatter", "Scatterv", "Allgather", "Allgatherv", "Alltoall", "Alltoallv"]


def main(rounds):
    comms = [world, world.Dup(), world.Split(0, -world.rank)]
    for comm in comms:
        for _ in range(3):
            comm.Barrier()
    persistent = []
    for _ in range(6):
        call = Call(draw.choice(comms), draw.choice(NAMES))
        persistent.append((call, call.call("persistent")))
    salt = calls = 0
    for turn in range(rounds):
        requests, things = [], []
        for call, request in draw.sample(persistent, draw.randrange(4)):
            salt += 1
            call.fill(salt)
            request.Start()
            requests.append(request)
            things.append(call)
        for _ in range(draw.randrange(1, 7)):
            salt += 1
            calls += 1
            if draw.random() < 0.2:
                message = Message(draw.choice(comms), salt)
                requests += message.requests
                things.append(message)
                continue
            call = Call(draw.choice(comms), draw.choice(NAMES))
            call.fill(salt)
            if draw.random() < 0.25:
                call.call("blocking")
                call.check()
                continue
            requests.append(call.call("nonblocking"))
            things.append(call)
        order = own_draw.sample(range(len(requests)), len(requests))
        end_by_waits([requests[i] for i in order])
        for thing in things:
            thing.check()
    for _, request in persistent:
        request.Free()
    last = Call(comms[1], "Allreduce")
    last.fill(salt)
    request = last.call("nonblocking")
    comms[1].Free()  # the call continues
    request.Wait()
    last.check()
    print(f"nonblocking: ok: {rounds} rounds", flush=True)


main(int(sys.argv[2]))
