"""Every collective of torch.distributed over the back end penstock, against what the ranks' values give."""

import itertools

import penstock.torch  # noqa: F401, makes the back end known
import torch
import torch.distributed as dist
from torch.distributed import ReduceOp
from torch.distributed import distributed_c10d as c10d

dist.init_process_group("penstock")
rank, ranks = dist.get_rank(), dist.get_world_size()
INTEGERS = [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
SIZES = [0, 1, 7, 1000, 70_001]


def values(owner, size, dtype):
    """Small whole numbers: sums are exact in every type."""
    random = torch.Generator().manual_seed(1000 * owner + size)
    return torch.randint(0, 3, (size,), generator=random).to(dtype)


def everyone(size, dtype):
    return torch.stack([values(owner, size, dtype) for owner in range(ranks)])


def check(found, wanted, what):
    assert found.dtype == wanted.dtype and torch.equal(found, wanted), (what, rank, found, wanted)


def reductions():
    for dtype, size in itertools.product(INTEGERS + FLOATS, SIZES):
        mine, wide = values(rank, size, dtype), everyone(size, torch.float64)
        wanted = {ReduceOp.SUM: wide.sum(0), ReduceOp.MIN: wide.amin(0), ReduceOp.MAX: wide.amax(0),
                  ReduceOp.PRODUCT: wide.prod(0)}
        for op, result in wanted.items():
            tensor = mine.clone()
            dist.all_reduce(tensor, op)
            check(tensor, result.to(dtype), (op, dtype, size))
        tensor = mine.clone()
        dist.reduce(tensor, ranks - 1)
        check(tensor, wanted[ReduceOp.SUM].to(dtype) if rank == ranks - 1 else mine, ("reduce", dtype, size))
    for dtype in INTEGERS:
        for op, combine in ((ReduceOp.BAND, torch.bitwise_and), (ReduceOp.BOR, torch.bitwise_or),
                            (ReduceOp.BXOR, torch.bitwise_xor)):
            tensor, wanted = values(rank, 99, dtype), values(0, 99, dtype)
            for owner in range(1, ranks):
                wanted = combine(wanted, values(owner, 99, dtype))
            dist.all_reduce(tensor, op)
            check(tensor, wanted, (op, dtype))
    for dtype in FLOATS:
        tensor = torch.full((50,), rank + 1.0, dtype=dtype)
        dist.all_reduce(tensor, ReduceOp.AVG)
        check(tensor, torch.full((50,), (ranks + 1) / 2, dtype=dtype), ("average", dtype))
        tensor = torch.full((50,), rank + 1.0, dtype=dtype)
        dist.all_reduce(tensor, dist._make_nccl_premul_sum(0.5))
        check(tensor, torch.full((50,), ranks * (ranks + 1) / 4, dtype=dtype), ("premultiplied sum", dtype))


def odd_tensors():
    flags = torch.tensor([rank == 0, rank == 1, False])
    dist.all_reduce(flags, ReduceOp.MAX)
    check(flags, torch.tensor([True, True, False]), "bool")
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        tensor = torch.full((9,), rank + 1.0).to(dtype)
        dist.all_reduce(tensor)
        check(tensor.float(), torch.full((9,), ranks * (ranks + 1) / 2), dtype)
    number = torch.full((5,), complex(rank, 1))
    dist.all_reduce(number)
    check(number, torch.full((5,), complex(ranks * (ranks - 1) / 2, ranks)), "complex")
    turned = torch.arange(12.0).reshape(3, 4).t()
    dist.all_reduce(turned)
    check(turned, ranks * torch.arange(12.0).reshape(3, 4).t(), "not contiguous")
    dist.broadcast(turned, 1)
    shared = torch.full((1,), float(rank)).expand(5)
    if rank == 1:  # a root may send it
        dist.broadcast(shared, 1)
    else:
        received = torch.empty(5)
        dist.broadcast(received, 1)
        check(received, torch.ones(5), "expanded")
    try:
        dist.all_reduce(shared)
    except RuntimeError as error:
        assert "several elements share memory" in str(error), error
    else:
        raise AssertionError("a reduction into an expanded tensor")
    whole = torch.full((ranks, 6), -1.0)
    whole[rank] = rank
    dist.all_gather_into_tensor(whole, whole[rank])
    check(whole, torch.arange(float(ranks))[:, None].expand(ranks, 6), "all_gather_into_tensor in place")


def movements():
    for size in SIZES:
        wanted = everyone(size, torch.float32)
        for root in range(ranks):
            tensor = values(rank, size, torch.float32)
            dist.broadcast(tensor, root)
            check(tensor, wanted[root], ("broadcast", size))
            parts = [torch.empty(size) for _ in range(ranks)] if rank == root else None
            dist.gather(values(rank, size, torch.float32), parts, root)
            assert rank != root or torch.equal(torch.stack(parts), wanted), "gather"
            tensor = torch.empty(size)
            dist.scatter(tensor, list(wanted) if rank == root else None, root)
            check(tensor, wanted[rank], ("scatter", size))
        parts = [torch.empty(size) for _ in range(ranks)]
        dist.all_gather(parts, values(rank, size, torch.float32))
        check(torch.stack(parts), wanted, ("all_gather", size))
        parts = [torch.empty(size + owner) for owner in range(ranks)]
        dist.all_gather(parts, torch.full((size + rank,), float(rank)))
        assert all(torch.equal(part, torch.full_like(part, owner)) for owner, part in enumerate(parts)), "uneven"
        tensor = torch.empty(size)
        dist.reduce_scatter(tensor, [owner * torch.ones(size) for owner in range(ranks)])
        check(tensor, torch.full((size,), float(rank * ranks)), ("reduce_scatter", size))
        dist.reduce_scatter_tensor(tensor, torch.arange(float(size * ranks)))
        check(tensor, ranks * torch.arange(float(size * ranks))[rank * size:(rank + 1) * size], "reduce_scatter_tensor")
        came = [torch.empty(size + owner) for owner in range(ranks)]
        dist.all_to_all(came, [torch.full((size + rank,), 10.0 * rank + to) for to in range(ranks)])
        assert all(torch.equal(part, torch.full_like(part, 10.0 * owner + rank)) for owner, part in enumerate(came))
    come = torch.empty(sum(range(1, ranks + 1)), 2)
    dist.all_to_all_single(come, torch.full((ranks * (rank + 1), 2), float(rank)),
                           list(range(1, ranks + 1)), [rank + 1] * ranks)
    check(come, torch.cat([torch.full((owner + 1, 2), float(owner)) for owner in range(ranks)]), "all_to_all_single")


def lazy(owner, kind, size=6):
    """A tensor whose values differ from its memory, and the values."""
    numbers = (torch.arange(size) * (1 + 2j) + owner * (10 - 3j)).to(torch.complex64)
    if kind == "zero":
        return torch._efficientzerotensor(size), torch.zeros(size)
    tensor = numbers.conj() if kind == "conjugate" else numbers.conj().imag
    return tensor, tensor.clone().resolve_conj().resolve_neg()


def lazy_inputs():
    """Inputs that PyTorch has not computed yet: in lists, and passed to the back end directly."""
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    for kind, size in (("conjugate", 6), ("negative", 6), ("negative", 1), ("zero", 6)):
        mine, wanted = lazy(rank, kind, size)[0], [lazy(owner, kind, size)[1] for owner in range(ranks)]
        mixed = [lazy(rank + owner, kind, size)[0] for owner in range(ranks)]
        mixed_wanted = [lazy(rank + owner, kind, size)[1] for owner in range(ranks)]
        whole, pool = torch.stack(wanted), [torch.empty_like(wanted[0]) for _ in range(ranks)]
        into = torch.empty_like(wanted[0])

        def is_right(found, right, what):
            check(found, right, (what, kind, size))

        backend.allgather([pool], [mine], c10d.AllgatherOptions()).wait()
        is_right(torch.stack(pool), whole, "all_gather")
        backend.gather([pool] if rank == 0 else [], [mine], c10d.GatherOptions()).wait()
        is_right(torch.stack(pool), whole, "gather")
        backend.scatter([into], [mixed] if rank == 0 else [], c10d.ScatterOptions()).wait()
        is_right(into, wanted[rank], "scatter")
        backend.reduce_scatter([into], [mixed], c10d.ReduceScatterOptions()).wait()
        is_right(into, sum(mixed_wanted), "reduce_scatter")
        backend.alltoall(pool, mixed, c10d.AllToAllOptions()).wait()
        is_right(torch.stack(pool), torch.stack(mixed_wanted), "all_to_all")
        gathered = torch.empty_like(torch.cat(wanted))
        backend._allgather_base(gathered, mine).wait()
        is_right(gathered, torch.cat(wanted), "all_gather_into_tensor")
        split, split_wanted = lazy(rank, kind, size * ranks)
        backend._reduce_scatter_base(into, split).wait()
        own = slice(rank * size, (rank + 1) * size)
        is_right(into, sum(lazy(owner, kind, size * ranks)[1][own] for owner in range(ranks)), "reduce_scatter_tensor")
        backend.alltoall_base(gathered, split, [], []).wait()
        is_right(gathered, torch.cat([lazy(owner, kind, size * ranks)[1][own] for owner in range(ranks)]), "all_to_all_single")
        backend.broadcast([mine if rank == 0 else into], c10d.BroadcastOptions()).wait()
        is_right(into if rank else mine.clone().resolve_conj().resolve_neg(), wanted[0], "broadcast")
        works = [backend.send([mine], (rank + 1) % ranks, 3), backend.recv([into], (rank - 1) % ranks, 3)]
        for work in works:
            work.wait()
        is_right(into, wanted[(rank - 1) % ranks], "message")


def lazy_outputs():
    """The values that a lazy tensor has after the call are right, whatever its memory holds."""
    backend = dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu"))
    for kind in ("conjugate", "negative"):
        mine, own = lazy(rank, kind)
        wanted = [lazy(owner, kind)[1] for owner in range(ranks)]
        pool = [lazy(5, kind)[0] for _ in range(ranks)]
        backend.allgather([pool], [own], c10d.AllgatherOptions()).wait()
        assert all(torch.equal(found, right) for found, right in zip(pool, wanted)), ("all_gather", kind, pool)
        backend.allreduce([mine], c10d.AllreduceOptions()).wait()
        assert torch.equal(mine, sum(wanted)), ("all_reduce", kind, mine)
        backend.broadcast([mine if rank == 0 else pool[0]], c10d.BroadcastOptions()).wait()
        assert torch.equal(pool[0], wanted[0] if rank == 0 else sum(wanted)), ("broadcast", kind, pool[0])
    try:
        backend.allreduce([torch._efficientzerotensor(3)], c10d.AllreduceOptions())
    except RuntimeError as error:
        assert "has no memory" in str(error), error
    else:
        raise AssertionError("a reduction into a tensor without memory")


def strided_splits():
    """Tensors that are split along their first dimension need not be contiguous."""
    turned = torch.arange(6.0 * ranks).reshape(3, 2 * ranks).t() + rank
    come = torch.empty(3, 2 * ranks).t()
    dist.all_to_all_single(come, turned)
    own = slice(2 * rank, 2 * rank + 2)
    check(come, torch.cat([turned[own] - rank + owner for owner in range(ranks)]), "all_to_all_single, not contiguous")
    part = torch.empty(3, 2).t()
    dist.reduce_scatter_tensor(part, turned)
    check(part, ranks * (turned[own] - rank) + sum(range(ranks)), "reduce_scatter_tensor, not contiguous")


def others():
    objects = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": owner} for owner in range(ranks)]
    work = [dist.all_reduce(torch.ones(1000), async_op=True) for _ in range(20)]
    assert all(one.wait() for one in work) and all(one.is_completed() for one in work)
    future = dist.all_reduce(torch.ones(10), async_op=True).get_future()
    assert torch.equal(future.wait()[0], torch.full((10,), float(ranks)))
    with dist._coalescing_manager(async_ops=True) as coalesced:
        tensors = [torch.full((size,), 1.0) for size in (3, 1000, 5)]
        for tensor in tensors:
            dist.all_reduce(tensor)
    coalesced.wait()
    assert all((tensor == ranks).all() for tensor in tensors)
    for size in (0, 3, 1_000_000):
        out, into = torch.full((size,), float(rank)), torch.empty(size)
        for one in dist.batch_isend_irecv([dist.P2POp(dist.isend, out, (rank + 1) % ranks, tag=5),
                                           dist.P2POp(dist.irecv, into, (rank - 1) % ranks, tag=5)]):
            one.wait()
        check(into, torch.full((size,), float((rank - 1) % ranks)), "ring")
    if rank == 0:
        seen = []
        for _ in range(ranks - 1):
            tensor = torch.empty(2)
            seen.append(dist.recv(tensor))
            assert (tensor == seen[-1]).all()
        assert sorted(seen) == list(range(1, ranks))
    else:
        dist.send(torch.full((2,), float(rank)), 0)
    twice = torch.full((4,), rank + 1.0)
    dist.distributed_c10d._get_default_group()._get_backend(torch.device("cpu")).allreduce_coalesced([twice, twice]).wait()
    check(twice, torch.full((4,), ranks * (ranks + 1) / 2), "a tensor that is named twice")
    pair = dist.new_group([0, 1])
    if rank < 2:
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=pair)
        check(tensor, torch.full((3,), 2.0), "a smaller group")


reductions()
odd_tensors()
movements()
lazy_inputs()
lazy_outputs()
strided_splits()
others()
dist.barrier()
dist.destroy_process_group()
print("collectives: ok", flush=True)
