"""mpi4py.futures: a pool of workers that MPI_Comm_spawn starts, or that `python -m mpi4py.futures` has started."""

from mpi4py.futures import MPIPoolExecutor


def square(number):
    return number * number


if __name__ == "__main__":
    with MPIPoolExecutor(max_workers=2) as executor:
        assert list(executor.map(square, range(200))) == [n * n for n in range(200)]
        text = executor.submit(str.upper, "x" * 300_000).result()
        assert text == "X" * 300_000
    print("futures: ok")
