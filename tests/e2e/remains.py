"""Finds files that killed MPI launchers and ranks leave in /dev/shm and /tmp, and removes them. Keeps files that a living
process may use: they belong to other jobs."""

import os
import re
from pathlib import Path

SHM = Path("/dev/shm")
# Name patterns of MPICH, Intel MPI, and Open MPI's btl/sm, btl/vader and one-sided components.
SEGMENTS = ("mpich_", "Intel_MPI_", "sm_segment.", "vader_segment.", "osc_rdma.", "osc_sm.")
TOPOLOGY = "hydra_hwloc_xmlfile_"  # Hydra's proxy makes it for its ranks; its folder is always /tmp
HZ = os.sysconf("SC_CLK_TCK")


def _mapped(processes):
    """Files in /dev/shm that these processes have mapped."""
    found = set()
    for process in processes:
        try:
            maps = Path(f"/proc/{process}/maps").read_text(errors="replace")
        except OSError:
            continue
        found.update(re.findall(rf"{SHM}/\S+$", maps, re.M))
    return {Path(path) for path in found}


def segments_of(processes):
    """Files of MPIs among them."""
    return {path for path in _mapped(processes) if path.name.startswith(SEGMENTS)}


def _held():
    """Files that some process has open, and those in /dev/shm that some process has mapped: an MPI closes its file once it
    has mapped it."""
    held = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            held.add(Path(os.readlink(link)))
        except OSError:
            continue
    return held | _mapped(path.name for path in Path("/proc").glob("[0-9]*"))


def _oldest_proxy():
    """When the oldest of Hydra's living proxies began, in seconds since 1970."""
    booted = int(re.search(r"^btime (\d+)", Path("/proc/stat").read_text(), re.M)[1])
    began = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            name, rest = (folder / "stat").read_text(errors="replace").rsplit(")", 1)
        except OSError:
            continue
        if "(hydra_pmi" in name:
            began.append(booted + int(rest.split()[19]) / HZ)
    return min(began, default=float("inf"))


def _made_since(paths, since):
    for path in paths:
        try:
            status = path.lstat()
        except OSError:
            continue
        if status.st_uid == os.geteuid() and status.st_mtime >= since:
            yield path, status.st_mtime


def unheld(folder, names, since):
    """This user's files of a folder whose names begin so, that were made since then, and that no process has open or has
    mapped; and when each was made."""
    found = dict(_made_since((path for path in folder.iterdir() if path.name.startswith(names)), since))
    held = _held() if found else ()
    return {path: made for path, made in found.items() if path not in held}


def remains(since):
    """This user's MPI files that were made since then and whose processes are gone, and when each was made."""
    topologies = dict(_made_since(Path("/tmp").glob(f"{TOPOLOGY}*"), since))
    oldest = _oldest_proxy() - 1 if topologies else 0  # the clock of /proc has steps
    return unheld(SHM, SEGMENTS, since) | {path: made for path, made in topologies.items() if made < oldest}


def remove_remains(since):
    for path in remains(since):
        path.unlink(missing_ok=True)
