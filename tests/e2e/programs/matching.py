"""The rounds of a plan of sends and receives, by PyTorch or MPI: matching.py torch|mpi PLAN (print_matching_plan)."""

import itertools
import sys

import numpy as np


class Torch:
    def __init__(self):
        import penstock.torch  # noqa: F401, makes the back end known
        import torch
        import torch.distributed as dist
        self.torch, self.dist = torch, dist
        dist.init_process_group("penstock")
        self.rank = dist.get_rank()

    def send(self, data, peer, tag):
        return self.dist.isend(self.torch.from_numpy(data), peer, tag=tag)

    def receive(self, data, peer, tag):
        return self.dist.irecv(self.torch.from_numpy(data), None if peer < 0 else peer, tag=tag)

    def source_of(self, work):
        work.wait()
        return work._source_rank()

    def end(self):
        self.dist.destroy_process_group()


class Mpi:
    def __init__(self):
        from mpi4py import MPI
        self.mpi, self.world = MPI, MPI.COMM_WORLD
        self.rank = self.world.rank

    def send(self, data, peer, tag):
        return self.world.Isend([data, self.mpi.BYTE], peer, tag)

    def receive(self, data, peer, tag):
        return self.world.Irecv([data, self.mpi.BYTE], self.mpi.ANY_SOURCE if peer < 0 else peer, tag)

    def source_of(self, request):
        status = self.mpi.Status()
        request.Wait(status)
        return status.Get_source()

    def end(self):
        pass


def message(number, length):
    at = np.arange(length, dtype=np.uint64)
    return (number * 31 + at * 7 + at // 251).astype(np.uint8)


by = {"torch": Torch, "mpi": Mpi}[sys.argv[1]]()
with open(sys.argv[2]) as plan:
    lines = [list(map(int, line.split())) for line in plan]
for number, calls in itertools.groupby(lines, key=lambda line: line[0]):
    begun = []
    for _, rank, is_send, peer, tag, length, message_number, sender in calls:
        if rank != by.rank:
            continue
        data = message(message_number, length) if is_send else np.zeros(length, np.uint8)
        begun.append((is_send, data, message_number, sender, (by.send if is_send else by.receive)(data, peer, tag)))
    for is_send, data, message_number, sender, request in begun:
        source = by.source_of(request)
        if not is_send:
            assert source == sender, (number, message_number, source, sender)
            assert np.array_equal(data, message(message_number, len(data))), (number, message_number)
by.end()
print("matching: ok", flush=True)
