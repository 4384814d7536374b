"""Random collectives and messages on several communicators, compared with what MPI promises.

    collectives.py SEED CALLS

All ranks draw the same calls: each of the 16 blocking collectives, types with and without holes, operations of
MPI and of users (also such as do not commute), in place, sizes from none to some hundred KB, counts that differ
from rank to rank, between messages, some of which stay open over many calls, and nonblocking collectives of the MPI
itself. Communicators are freed and made anew as the calls go on, split as the draws will have it.
"""
import random
import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
draw = random.Random(int(sys.argv[1]))
TYPES = ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8"]
MPI_TYPE = {np.dtype(kind).char: MPI.Datatype.fromcode(np.dtype(kind).char) for kind in TYPES}
OPS = [(MPI.SUM, np.add), (MPI.PROD, np.multiply), (MPI.MAX, np.maximum), (MPI.MIN, np.minimum)]
BITS = [(MPI.BAND, np.bitwise_and), (MPI.BOR, np.bitwise_or), (MPI.BXOR, np.bitwise_xor)]


def values(kind, rank, call, count):
    """A rank's input: small numbers, so that sums of reals are exact."""
    return ((np.arange(count, dtype="i8") * 7 + rank * 13 + call * 5) % 11).astype(kind)


def second_of_pairs(left, right):
    """Not commutative, but associative: pairs (a, b) as the maps x -> a x + b, one after the other."""
    a, b = left[0::2], left[1::2]
    c, d = right[0::2], right[1::2]
    out = np.empty_like(left)
    out[0::2], out[1::2] = a * c, b * c + d
    return out


def user_function(invec, inoutvec, datatype):
    left, right = np.frombuffer(invec, "u4"), np.frombuffer(inoutvec, "u4")
    right[:] = second_of_pairs(left, right)


PAIRS = MPI.Op.Create(user_function, commute=False)
PAIR = MPI.UINT32_T.Create_contiguous(2).Commit()


def fold(function, parts):
    result = parts[0].copy()
    for part in parts[1:]:
        result = function(result, part).astype(result.dtype)
    return result


class Caller:
    def __init__(self, comm):
        self.comm, self.n, self.rank = comm, comm.size, comm.rank

    def size(self):
        return draw.choice([0, 1, 2, 3, 7, 8, 13, 64, 100, 511, 1000, 1001, 5000, 20000])

    def check(self, got, wanted, what):
        assert np.array_equal(got, wanted), f"{what}: rank {self.rank} of {self.n}"

    # ---- movements

    def barrier(self, call):
        self.comm.Barrier()

    def bcast(self, call):
        root, count, holes = draw.randrange(self.n), self.size(), draw.random() < 0.3
        wanted = values("f8", root, call, count)
        if not holes:
            data = wanted.copy() if self.rank == root else np.zeros(count)
            self.comm.Bcast(data, root)
            return self.check(data, wanted, "bcast")
        column = MPI.DOUBLE.Create_vector(count, 1, 2).Commit()  # every second number
        data = np.full(2 * count, -1.0)
        if self.rank == root:
            data[0::2] = wanted
        self.comm.Bcast([data, 1, column], root)
        column.Free()
        self.check(data[0::2], wanted, "bcast of a column")
        self.check(data[1::2], np.full(count, -1.0), "between a column")

    def blocks(self, kind, call, counts):
        return [values(kind, r, call, c) for r, c in enumerate(counts)]

    def allgather(self, call):
        kind, count = draw.choice(TYPES), self.size() // 4
        each, in_place = draw.random() < 0.5, draw.random() < 0.3
        counts = [draw.choice([0, 1, count, count + 3]) for _ in range(self.n)] if each else [count] * self.n
        blocks = self.blocks(kind, call, counts)
        places = np.cumsum([0] + [c + (2 if each else 0) for c in counts])[:-1]
        out = np.zeros(sum(counts) + 2 * self.n, kind)
        if in_place:
            out[places[self.rank]:places[self.rank] + counts[self.rank]] = blocks[self.rank]
        own = MPI.IN_PLACE if in_place else blocks[self.rank]
        if each:
            self.comm.Allgatherv(own, [out, counts, places, MPI_TYPE[out.dtype.char]])
        else:
            self.comm.Allgather(own, [out, count, MPI_TYPE[out.dtype.char]])
        for r, block in enumerate(blocks):
            self.check(out[places[r]:places[r] + counts[r]], block, "allgather")

    def gather(self, call):
        root, kind, count = draw.randrange(self.n), draw.choice(TYPES), self.size() // 4
        each, in_place = draw.random() < 0.5, draw.random() < 0.3
        counts = [draw.choice([0, 1, count, count + 3]) for _ in range(self.n)] if each else [count] * self.n
        blocks = self.blocks(kind, call, counts)
        places = np.cumsum([0] + counts)[:-1]
        mpi_type = MPI_TYPE[np.dtype(kind).char]
        out = np.zeros(sum(counts) + 1, kind) if self.rank == root else None
        own = blocks[self.rank]
        if in_place and self.rank == root:
            out[places[root]:places[root] + counts[root]] = own
            own = MPI.IN_PLACE
        if each:
            self.comm.Gatherv(own, [out, counts, places, mpi_type] if self.rank == root else None, root)
        else:
            self.comm.Gather(own, [out, count, mpi_type] if self.rank == root else None, root)
        if self.rank == root:
            self.check(out[:-1], np.concatenate(blocks), "gather")

    def scatter(self, call):
        root, kind, count = draw.randrange(self.n), draw.choice(TYPES), self.size() // 4
        each, in_place = draw.random() < 0.5, draw.random() < 0.3
        counts = [draw.choice([0, 1, count, count + 3]) for _ in range(self.n)] if each else [count] * self.n
        blocks = self.blocks(kind, call, counts)
        places = np.cumsum([0] + counts)[:-1]
        mpi_type = MPI_TYPE[np.dtype(kind).char]
        everything = np.concatenate(blocks) if self.rank == root else None
        got = np.zeros(counts[self.rank], kind)
        to = MPI.IN_PLACE if in_place and self.rank == root else [got, counts[self.rank], mpi_type]
        if each:
            self.comm.Scatterv([everything, counts, places, mpi_type] if self.rank == root else None, to, root)
        else:
            self.comm.Scatter([everything, count, mpi_type] if self.rank == root else None, to, root)
        if not (in_place and self.rank == root):
            self.check(got, blocks[self.rank], "scatter")

    def alltoall(self, call):
        kind, count = draw.choice(TYPES), self.size() // 8
        each, in_place = draw.random() < 0.5, draw.random() < 0.3
        table = [[count] * self.n for _ in range(self.n)]
        if each:
            table = [[draw.choice([0, 1, count, count + 3]) for _ in range(self.n)] for _ in range(self.n)]
            if in_place:
                table = [[table[min(p, c)][max(p, c)] for c in range(self.n)] for p in range(self.n)]
        sent = [[values(kind, p * self.n + c, call, table[p][c]) for c in range(self.n)] for p in range(self.n)]
        back = [table[p][self.rank] for p in range(self.n)]
        mpi_type = MPI_TYPE[np.dtype(kind).char]
        there, here = (np.cumsum([0] + list(counts))[:-1] for counts in (table[self.rank], back))
        out = np.zeros(sum(back) + 1, kind)
        own = np.concatenate(sent[self.rank]) if sent[self.rank] else np.zeros(0, kind)
        if in_place:
            out[:-1] = own
        if each:
            self.comm.Alltoallv(MPI.IN_PLACE if in_place else [own, table[self.rank], there, mpi_type],
                                [out, back, here, mpi_type])
        else:
            self.comm.Alltoall(MPI.IN_PLACE if in_place else [own, count, mpi_type], [out, count, mpi_type])
        self.check(out[:-1], np.concatenate([sent[p][self.rank] for p in range(self.n)]), "alltoall")

    # ---- reductions

    def operation(self):
        """op, MPI's type, numpy's type, numbers an element, function"""
        if draw.random() < 0.15:
            return PAIRS, PAIR, "u4", 2, second_of_pairs
        kind = draw.choice(TYPES)
        named = OPS if kind[0] == "f" or draw.random() < 0.5 else BITS
        op, function = draw.choice(named)
        return op, MPI_TYPE[np.dtype(kind).char], kind, 1, function

    def reduction(self, call, name):
        op, mpi_type, kind, width, function = self.operation()
        root, count, in_place = draw.randrange(self.n), self.size(), draw.random() < 0.3
        parts = [values(kind, r, call, count * width) for r in range(self.n)]
        own, out = parts[self.rank].copy(), np.zeros(count * width, kind)
        gets = name != "Reduce" or self.rank == root
        if in_place and gets:
            out[:] = own
        send = MPI.IN_PLACE if in_place and gets else [own, count, mpi_type]
        arguments = [send, [out, count, mpi_type] if gets else None, op]
        getattr(self.comm, name)(*arguments, **({"root": root} if name == "Reduce" else {}))
        last = {"Scan": self.rank + 1, "Exscan": self.rank}.get(name, self.n)
        if gets and last > 0:
            self.check(out, fold(function, parts[:last]), name)

    def reduce(self, call):
        self.reduction(call, "Reduce")

    def allreduce(self, call):
        self.reduction(call, "Allreduce")

    def scan(self, call):
        self.reduction(call, "Scan")

    def exscan(self, call):
        self.reduction(call, "Exscan")

    def reduce_scatter(self, call):
        op, mpi_type, kind, width, function = self.operation()
        each, in_place, count = draw.random() < 0.5, draw.random() < 0.3, self.size() // 4
        counts = [draw.choice([0, 1, count, count + 3]) for _ in range(self.n)] if each else [count] * self.n
        parts = [values(kind, r, call, sum(counts) * width) for r in range(self.n)]
        own = parts[self.rank].copy()
        got = own if in_place else np.zeros(sum(counts) * width, kind)
        send = MPI.IN_PLACE if in_place else [own, sum(counts), mpi_type]
        if each:
            self.comm.Reduce_scatter(send, [got, sum(counts) if in_place else counts[self.rank], mpi_type], counts, op)
        else:
            self.comm.Reduce_scatter_block(send if in_place else [own, count, mpi_type], [got, count, mpi_type], op)
        at = sum(counts[:self.rank]) * width
        wanted = fold(function, parts)[at:at + counts[self.rank] * width]
        self.check(got[:len(wanted)], wanted, "reduce_scatter")

    # ---- other calls between the pool's collectives

    def messages(self, call):
        right, left = (self.rank + 1) % self.n, (self.rank - 1) % self.n
        count = draw.choice([self.size(), 300_000])
        got = np.zeros(count)
        request = self.comm.Isend(values("f8", self.rank, call, count), right, call % 100)
        self.barrier(call)  # an unfinished message, even a rendezvous, must not block a collective
        self.comm.Recv(got, left, call % 100)
        request.Wait()
        self.check(got, values("f8", left, call, count), "a message")

    def nonblocking(self, call):
        count = self.size()
        own, got = values("i8", self.rank, call, count), np.zeros(count, "i8")
        request = self.comm.Iallreduce(own, got)
        self.allreduce(call)
        request.Wait()
        self.check(got, fold(np.add, [values("i8", r, call, count) for r in range(self.n)]), "iallreduce")


class Open:
    """A message around a communicator's ring, which begins now and ends some calls later."""

    def __init__(self, caller, call):
        right, left = (caller.rank + 1) % caller.n, (caller.rank - 1) % caller.n
        self.caller, self.last_call = caller, call + draw.randrange(1, 30)
        count = draw.choice([1, 100, 5000, 100_000])
        self.sent, self.wanted, self.got = values("f8", caller.rank, call, count), values("f8", left, call, count), \
            np.zeros(count)
        tag = 1000 + call
        self.requests = [caller.comm.Irecv(self.got, left, tag), caller.comm.Isend(self.sent, right, tag)]

    def end(self):
        MPI.Request.Waitall(self.requests)
        self.caller.check(self.got, self.wanted, "a message that was open for long")


def split(shape):
    """Splits the world, collectively: a duplicate, the reverse order, two halves, or at random."""
    if shape == "dup":
        return Caller(world.Dup())
    colors, keys = [0] * world.size, [-r for r in range(world.size)]
    if shape == "halves":
        colors, keys = [r % 2 for r in range(world.size)], list(range(world.size))
    if shape == "any":
        colors = [draw.randrange(3) for _ in range(world.size)]
        keys = [draw.randrange(5) for _ in range(world.size)]
    return Caller(world.Split(colors[world.rank], keys[world.rank]))


def communicators():
    return [Caller(world)] + [split(shape) for shape in ("dup", "turned", "halves", "any")]


def main():
    callers, opened = communicators(), []
    kinds = ["barrier", "bcast", "allgather", "gather", "scatter", "alltoall", "reduce", "allreduce", "scan", "exscan",
             "reduce_scatter", "messages", "nonblocking"]
    for call in range(int(sys.argv[2])):
        caller, kind = draw.choice(callers), draw.choice(kinds)
        state = draw.getstate()
        getattr(caller, kind)(call)
        draw.setstate(state)  # halves of different size draw differently often
        draw.random()
        if draw.random() < 0.15:
            opened.append(Open(draw.choice(callers), call))
        which, shape, anew = draw.randrange(1, len(callers)), draw.choice(["dup", "turned", "halves", "any"]), \
            draw.random() < 0.05
        for message in [m for m in opened if m.last_call == call or (anew and m.caller is callers[which])]:
            message.end()
            opened.remove(message)
        if anew:
            callers[which].comm.Free()
            callers[which] = split(shape)
    for message in opened:
        message.end()
    print(f"collectives: ok: {sys.argv[2]} calls", flush=True)


main()
