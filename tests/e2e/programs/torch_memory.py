"""Tensors in the pool: collectives of them, FSDP2's buffers there, and what a pool without room gives."""

import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

ELEMENTS = 600_000


def allocate(elements, dtype=torch.float32):
    backend = dist.group.WORLD._get_backend(torch.device("cpu"))
    assert backend.supports_tensor_alloc(torch.device("cpu"))
    return backend.allocate_tensor(elements, dtype=dtype, device=torch.device("cpu"))


def mapping_of(tensor):
    """The line of /proc/self/maps in which the tensor lies."""
    for line in open("/proc/self/maps", encoding="ascii"):
        begin, end = (int(bound, 16) for bound in line.split()[0].split("-"))
        if begin <= tensor.data_ptr() < end:
            return line.strip()
    return ""


def check_collectives(rank, ranks):
    own, all_of_them, sums = allocate(ELEMENTS), allocate(ELEMENTS * ranks), allocate(ELEMENTS)
    assert own.data_ptr() % 4096 == 0 and own.shape == (ELEMENTS,)
    assert all("/dev/shm/" in mapping_of(tensor) for tensor in (own, all_of_them, sums)), mapping_of(own)
    for turn in range(5):
        own.fill_(rank + turn)
        dist.all_gather_into_tensor(all_of_them, own)
        own.fill_(-1)  # it is ours again
        parts = all_of_them.view(ranks, ELEMENTS)
        assert all((parts[other] == other + turn).all() for other in range(ranks)), f"turn {turn}"
        dist.reduce_scatter_tensor(sums, all_of_them)
        all_of_them.fill_(-1)
        assert (sums == (rank + turn) * ranks).all()
        own.fill_(rank + turn)
        dist.all_reduce(own)
        assert (own == sum(other + turn for other in range(ranks))).all()
        own.fill_(rank + turn)
        dist.broadcast(own, src=turn % ranks)
        assert (own == turn % ranks + turn).all()
    address = own.data_ptr()
    del own
    assert allocate(ELEMENTS).data_ptr() == address, "it is not used again"
    assert allocate(0).shape == (0,)
    assert allocate(8, torch.bfloat16).dtype == torch.bfloat16


def losses(in_pool):
    torch.manual_seed(1)
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(4)))
    fully_shard(model)
    if in_pool:
        model.set_allocate_memory_from_process_group_for_comm(True)
    steps = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(10 + dist.get_rank())
    found = []
    for _ in range(5):
        loss = model(torch.randn(16, 256)).square().mean()
        loss.backward()
        steps.step()
        steps.zero_grad()
        found.append(loss.item())
    return found


def check_a_full_pool():
    kept = [allocate(16 << 20, torch.uint8) for _ in range(64)]  # ordinary memory when the pool is full
    assert all(tensor.numel() == 16 << 20 for tensor in kept)
    kept[-1].fill_(1)
    dist.all_reduce(kept[-1])
    assert (kept[-1] == dist.get_world_size()).all()


if __name__ == "__main__":
    import penstock.torch  # noqa: F401

    dist.init_process_group("penstock")
    early = allocate(100)  # before the ranks have met it need not be in the pool
    early.fill_(1)
    dist.barrier()
    check_collectives(dist.get_rank(), dist.get_world_size())
    assert losses(True) == losses(False)
    if len(sys.argv) > 1:
        check_a_full_pool()
    dist.destroy_process_group()
    early.fill_(2)  # its memory outlives the group
    print("memory: ok")
