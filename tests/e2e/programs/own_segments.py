import re
from pathlib import Path


def own_segments():
    """Files that MPICH has made in /dev/shm for the ranks of this node."""
    return set(re.findall(r"/dev/shm/mpich_\S+$", Path("/proc/self/maps").read_text(), re.M))
