"""mpi4py.futures as `python -m mpi4py.futures` starts it, and mpi4py's objects through all collectives that take them."""

import json

from mpi4py.futures import MPIPoolExecutor


def work(number):
    return sum(each * each for each in range(number)), "x" * number


if __name__ == "__main__":
    with MPIPoolExecutor() as executor:
        found = list(executor.map(work, range(0, 4000, 100)))
        starred = list(executor.starmap(pow, [(2, each) for each in range(20)], chunksize=4))
    print("RESULT", json.dumps({"sums": [one for one, _ in found], "lengths": [len(text) for _, text in found], "powers": starred}))
