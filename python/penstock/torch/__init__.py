"""PyTorch's process groups over a pool.

    import torch.distributed as dist
    import penstock.torch

    dist.init_process_group("penstock")

Ranks on one host need nothing else. Ranks on several hosts name a shared pool by PENSTOCK_POOL.
The back end supports all collectives of torch.distributed for CPU tensors. Results of reductions do not depend on
sizes, algorithms or timing: operands are combined in rank order, and 16- and 8-bit floats are accumulated in 32 bits.
"""

import importlib
import multiprocessing.util
import os
import sys
from types import ModuleType
from typing import Any

import torch
import torch.distributed

__all__ = ["backend_module", "register"]

NAME = "penstock"


def backend_module() -> ModuleType:
    """Loads the compiled part for the installed torch.

    Errors: ImportError, which names the versions that were found and the command that builds the missing one.
    """
    version = "_".join(torch.__version__.split("+")[0].split(".")[:2])
    try:
        return importlib.import_module(f"penstock.torch._c10d_{version}")
    except ImportError as error:
        folder = os.path.dirname(__file__)
        found = sorted({name.split(".")[0][len("_c10d_"):].replace("_", ".")
                        for name in os.listdir(folder) if name.startswith("_c10d_")})
        raise ImportError(
            f"penstock.torch has no part for torch {torch.__version__} "
            f"(built for: {', '.join(found) or 'none'}; {error}): build it with {sys.executable} -m pip install "
            "--force-reinstall --no-deps . in Penstock's source") from error


def _emulate_nodes(rank: int, size: int) -> None:
    """With PENSTOCK_NODES=n, divides the ranks of this host into n emulated hosts: blocks, the first ones longer."""
    nodes = os.environ.get("PENSTOCK_NODES")
    if not nodes or "PENSTOCK_NODE" in os.environ:
        return
    if not (nodes.isascii() and nodes.isdigit()) or not 1 <= int(nodes) <= size:
        raise ValueError(f"PENSTOCK_NODES is '{nodes}': a number from 1 to {size}, the ranks, is needed")
    each, longer = divmod(size, int(nodes))
    in_longer = longer * (each + 1)
    node = rank // (each + 1) if rank < in_longer else longer + (rank - in_longer) // each
    os.environ["PENSTOCK_NODE"] = str(node)


_leaves = 0  # pid of the process that has registered to leave its groups at exit


def _of_this_life(store: Any) -> Any:
    """Separates the store's keys by restart: torchrun without a rendezvous service gives restarted workers the store of
    the earlier ones."""
    environment = os.environ
    if "TORCHELASTIC_RESTART_COUNT" not in environment:
        return store
    if environment.get("LOCAL_WORLD_SIZE") != environment.get("WORLD_SIZE"):  # each launcher counts its own restarts
        return store
    return torch.distributed.PrefixStore(f"life {environment['TORCHELASTIC_RESTART_COUNT']}", store)


def _forget_name() -> None:
    """torch numbers a default group too that could not be made. A rank that tries again would seek the others under a later number
    than a rank that has not tried before."""
    world = getattr(torch.distributed.distributed_c10d, "_world", None)
    if world is not None:
        world.group_count = 0


def _create(options: Any, backend_options: Any = None) -> Any:
    """Makes a process group; torch.distributed calls this."""
    global _leaves
    module = backend_module()
    _emulate_nodes(options.group_rank, options.group_size)
    if _leaves != os.getpid():  # runs before Python finalizes, and also in multiprocessing's processes
        multiprocessing.util.Finalize(None, module.leave, exitpriority=0)
        _leaves = os.getpid()
    is_default = not torch.distributed.is_initialized()
    timeout = options.timeout
    if backend_options is not None and getattr(backend_options, "_timeout", None):
        timeout = backend_options._timeout
    try:
        return module.make(_of_this_life(options.store), options.group_rank, options.group_size, timeout, options.group_id, is_default)
    except Exception:
        if is_default:
            _forget_name()
        raise


def register() -> None:
    """Registers "penstock" with torch.distributed. Importing this module does that; a second call does nothing."""
    if hasattr(torch.distributed.Backend, NAME.upper()):
        return
    torch.distributed.Backend.register_backend(NAME, _create, extended_api=True, devices=["cpu", "cuda"])


register()
