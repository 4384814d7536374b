"""Obtains mpi4py's test suite at a fixed version. No part of it is in git."""

import os
import subprocess
import sys
import tarfile

import launchers

VERSION = "4.1.2"


class Unavailable(Exception):
    pass


def _from_directory(directory):
    main_py = os.path.join(directory, "test", "main.py")
    if not os.path.exists(main_py):
        raise Unavailable(f"{main_py} is absent: give mpi4py's source tree at {VERSION}")
    return main_py


def obtain(source=None, cache=None):
    """Path of test/main.py: in `source`, else in the source distribution, fetched once."""
    if source:
        return _from_directory(os.path.abspath(source))
    cache = cache or os.path.join(launchers.ROOT, ".cache", "conformance")
    directory = os.path.join(cache, f"mpi4py-{VERSION}")
    if not os.path.exists(os.path.join(directory, "test", "main.py")):
        os.makedirs(cache, exist_ok=True)
        archive = os.path.join(cache, f"mpi4py-{VERSION}.tar.gz")
        if not os.path.exists(archive):
            _download(cache)
        with tarfile.open(archive) as tar:
            safely = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
            tar.extractall(cache, **safely)
    return _from_directory(directory)


def _download(directory):
    """Downloads by pip, which reads the metadata for some seconds but builds nothing."""
    python = launchers.first_that_exists(os.path.join(launchers.ROOT, ".venv", "bin", "python"))
    command = [python or sys.executable, "-m", "pip", "download", "--quiet", "--no-deps",
               "--no-binary", "mpi4py", "--dest", directory, f"mpi4py=={VERSION}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"mpi4py=={VERSION} cannot be downloaded: {error}") from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise Unavailable(f"mpi4py=={VERSION} cannot be downloaded: {last}; where there is no "
                          "network, give --source with its source tree")
