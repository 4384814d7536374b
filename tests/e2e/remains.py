"""Removes files that killed MPI launchers and ranks leave in /dev/shm and /tmp. Keeps files that a living process may
use: they belong to other jobs."""

import os
import re
from pathlib import Path

SHM = Path("/dev/shm")
# Name patterns of MPICH, Intel MPI, and Open MPI's btl/sm, btl/vader and one-sided components.
SEGMENTS = ("mpich_", "Intel_MPI_", "sm_segment.", "vader_segment.", "osc_rdma.", "osc_sm.")
TOPOLOGY = "hydra_hwloc_xmlfile_"  # Hydra's proxy makes it for its ranks; its folder is always /tmp
HZ = os.sysconf("SC_CLK_TCK")


def segments_of(processes):
    """Files of MPIs in /dev/shm that these processes have mapped."""
    found = set()
    for process in processes:
        try:
            maps = Path(f"/proc/{process}/maps").read_text(errors="replace")
        except OSError:
            continue
        found.update(path for path in re.findall(rf"{SHM}/(\S+)$", maps, re.M) if path.startswith(SEGMENTS))
    return {SHM / name for name in found}


def _held():
    """Files of MPIs in /dev/shm that some process has open or has mapped: an MPI closes its file once it has mapped it."""
    held = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            held.add(Path(os.readlink(link)))
        except OSError:
            continue
    return held | segments_of(path.name for path in Path("/proc").glob("[0-9]*"))


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


def remove_remains(since):
    """Removes this user's MPI files that were made since then and whose processes are gone."""
    segments = {path for path, _ in _made_since((path for path in SHM.iterdir() if path.name.startswith(SEGMENTS)), since)}
    if segments:
        segments -= _held()
    topologies = dict(_made_since(Path("/tmp").glob(f"{TOPOLOGY}*"), since))
    oldest = _oldest_proxy() - 1 if topologies else 0  # the clock of /proc has steps
    for path in (*segments, *(path for path, made in topologies.items() if made < oldest)):
        path.unlink(missing_ok=True)
