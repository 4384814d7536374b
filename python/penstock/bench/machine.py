"""Describes the machine of a run, and its settings that distort figures."""

from __future__ import annotations

import glob
import os
import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Dict, List, Optional, Sequence, Tuple

from penstock.bench.model import Fact
from penstock.bench.places import usable_cores

STEAL_THAT_SPOILS = 0.01
LOAD_THAT_SPOILS = 0.5


def text_of(path: str) -> Optional[str]:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def said(*command: str) -> Optional[str]:
    """The output of a command; None if it is absent or fails."""
    if not shutil.which(command[0]):
        return None
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False,
                              env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def cpu_times() -> Tuple[int, int]:
    """The jiffies of all CPUs since boot, and those that a hypervisor stole."""
    fields = (text_of("/proc/stat") or "cpu 0").splitlines()[0].split()[1:]
    numbers = [int(field) for field in fields[:8]]
    return sum(numbers), numbers[7] if len(numbers) > 7 else 0


def ranges(numbers: Sequence[int]) -> str:
    """
    >>> ranges([0, 1, 2, 5])
    '0-2,5'
    """
    parts: List[List[int]] = []
    for number in sorted(numbers):
        if parts and parts[-1][-1] == number - 1:
            parts[-1] = [parts[-1][0], number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)


def _processor() -> Dict[str, Fact]:
    lscpu = dict(re.findall(r"^([^:\n]+):\s+(.*)$", said("lscpu") or "", re.MULTILINE))
    caches = [f"{name[:-6]} {lscpu[name]}" for name in ("L1d cache", "L2 cache", "L3 cache") if name in lscpu]
    flags = set((lscpu.get("Flags") or "").split())
    wanted = ("clflush", "clflushopt", "clwb", "avx2", "avx512f", "movdir64b")
    return {
        "processor": lscpu.get("Model name") or platform.processor() or platform.machine(),
        "processor family": lscpu.get("CPU family"),
        "processor model": lscpu.get("Model"),
        "instructions": ", ".join(name for name in wanted if name in flags) or None,
        "CPUs": os.cpu_count(),
        "CPUs of this process": ranges(sorted(os.sched_getaffinity(0))),
        "threads of a core": lscpu.get("Thread(s) per core"),
        "sockets": lscpu.get("Socket(s)"),
        "caches": ", ".join(caches) or None,
        "hypervisor": lscpu.get("Hypervisor vendor"),
    }


def _memory() -> Dict[str, Fact]:
    found = re.search(r"MemTotal:\s+(\d+)", text_of("/proc/meminfo") or "")
    nodes = sorted(glob.glob("/sys/devices/system/node/node[0-9]*"))
    each = []
    for node in nodes:
        cpus = text_of(f"{node}/cpulist")
        total = re.search(r"MemTotal:\s+(\d+)", text_of(f"{node}/meminfo") or "")
        gib = int(total[1]) / 2**20 if total else 0
        each.append(f"{Path(node).name}: CPUs {cpus or 'none'}, {gib:.0f} GiB")
    return {
        "memory GiB": round(int(found[1]) / 2**20) if found else None,
        "NUMA nodes": len(nodes) or None,
        "NUMA": "; ".join(each) or None,
        "NUMA balancing": text_of("/proc/sys/kernel/numa_balancing"),
        "huge pages": _chosen(text_of("/sys/kernel/mm/transparent_hugepage/enabled")),
        "huge pages of /dev/shm": _chosen(text_of("/sys/kernel/mm/transparent_hugepage/shmem_enabled")),
    }


def _chosen(text: Optional[str]) -> Optional[str]:
    """
    >>> _chosen("always [madvise] never")
    'madvise'
    """
    found = re.search(r"\[(\w+)\]", text or "")
    return found[1] if found else text


def _frequency() -> Dict[str, Fact]:
    governors = {text_of(path) for path in glob.glob("/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")}
    no_turbo = text_of("/sys/devices/system/cpu/intel_pstate/no_turbo")
    boost = text_of("/sys/devices/system/cpu/cpufreq/boost")
    turbo = None if no_turbo is None and boost is None else "on" if no_turbo == "0" or boost == "1" else "off"
    return {"governor": ", ".join(sorted(filter(None, governors))) or None, "turbo": turbo}


def _devices() -> Dict[str, Fact]:
    """CXL and RDMA devices, as named by the installed tools."""
    lspci = said("lspci")
    wanted = re.compile(r"CXL|Infiniband|RoCE|ConnectX|Ethernet", re.IGNORECASE)
    lines = [line for line in (lspci or "").splitlines() if wanted.search(line)]
    rdma = [Path(path).name for path in glob.glob("/sys/class/infiniband/*")]
    return {
        "lspci": "; ".join(lines[:12]) or ("nothing of CXL or of networks" if lspci is not None else "lspci is absent"),
        "ndctl": _short(said("ndctl", "list", "-R"), "ndctl"),
        "daxctl": _short(said("daxctl", "list"), "daxctl"),
        "dax devices": ", ".join(sorted(Path(path).name for path in glob.glob("/sys/bus/dax/devices/*"))) or "none",
        "RDMA devices": ", ".join(sorted(rdma)) or "none",
    }


def _short(text: Optional[str], program: str) -> str:
    if text is None:
        return f"{program} is absent" if not shutil.which(program) else "nothing"
    return re.sub(r"\s+", " ", text)[:400] or "nothing"


def record() -> Dict[str, Fact]:
    """Facts about the machine, without nesting; None if this system does not provide one."""
    compiler = said("cc", "--version")
    facts = {**_processor(), **_memory(), **_frequency(), **_devices()}
    facts["system"] = f"{platform.system()} {platform.release()}"
    facts["compiler"] = compiler.splitlines()[0] if compiler else None
    facts["load at the start"] = round(os.getloadavg()[0], 2)
    return facts


def warnings(facts: Dict[str, Fact]) -> List[str]:
    """Settings that distort figures, each with its remedy."""
    found = []
    cores = usable_cores()
    if cores < 2:
        found.append("this process may use one CPU only: what needs two processes at a time is left out "
                     "(see taskset -p $$)")
    load = facts.get("load at the start")
    if isinstance(load, float) and load > LOAD_THAT_SPOILS * cores:
        found.append(f"the load was {load} at the start on {cores} CPUs: others were running, so times are of a machine "
                     "that was shared")
    if facts.get("NUMA balancing") not in (None, "0") and (facts.get("NUMA nodes") or 1) != 1:
        found.append("NUMA balancing is on and moves pages during a measurement: sysctl kernel.numa_balancing=0")
    governor = facts.get("governor")
    if governor and governor != "performance":
        found.append(f"the frequency governor is {governor}: cpupower frequency-set -g performance")
    if facts.get("turbo") == "on":
        found.append("turbo is on: the clock depends on how many cores work and how warm they are")
    if facts.get("hypervisor"):
        found.append(f"a virtual machine ({facts['hypervisor']}): the host may take the CPUs away, and its cores may be "
                     "threads of one core")
    return found


class Steal:
    """Measures the share of CPU time that a hypervisor steals."""

    def __init__(self) -> None:
        self._start = cpu_times()

    def share(self) -> float:
        total, stolen = cpu_times()
        passed = total - self._start[0]
        return (stolen - self._start[1]) / passed if passed > 0 else 0.0

    def warning(self) -> List[str]:
        share = self.share()
        if share <= STEAL_THAT_SPOILS:
            return []
        return [f"the hypervisor took {share:.1%} of the CPU time during the run: take the figures again when the host "
                "is quieter"]
