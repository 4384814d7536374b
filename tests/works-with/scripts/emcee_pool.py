"""emcee with a pool of schwimmbad: rank 0 hands the walkers to the others."""

import json
import sys

import emcee
import numpy as np
from mpi4py import MPI
from schwimmbad import MPIPool


def log_chance(point):
    return -0.5 * float(np.sum((point - np.arange(3)) ** 2 / np.array([1.0, 0.5, 2.0])))


with MPIPool() as pool:
    if not pool.is_master():
        pool.wait()
        sys.exit(0)
    np.random.seed(11)
    begin = np.random.randn(12, 3)
    sampler = emcee.EnsembleSampler(12, 3, log_chance, pool=pool)
    sampler.run_mcmc(begin, 25)
    chain = sampler.get_chain()
    print("RESULT", json.dumps({"mean": chain.mean(axis=(0, 1)).tolist(), "last": chain[-1, 3].tolist(), "mpi": MPI.Get_library_version()[:5]}))
