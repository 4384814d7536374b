"""What is done on the machine with two NUMA nodes and CXL memory. Checked are which classes
`penstock bench stream` finds, and that it finds its arrays right; never its figures."""

import csv
import json

from machines import Failure
from scenario import Scenario

FOLDER = "/mnt/pmem"
SMALL = "penstock bench stream --elements 4096 --any-size --ntimes 2 --csv /tmp/stream.csv"
FOUND = {"local": {"S0 -> numa:0", "S1 -> numa:1"},
         "2a": {"S0 -> numa:1", "S0 -> numa:2", "S1 -> numa:0", "S1 -> numa:2"},
         "2b": {"all -> numa:0", "all -> numa:1", "all -> numa:2"},
         "pool": {"S0 -> pool, hardware", "S0 -> pool, software", "S0 -> pool+observe, software"}}
PERSISTENT = {"1b": {f"S0 -> {way}" for way in ["pmem, hoisted", "pmem, D_RW an element", "pmem+persist", "pmem+tx",
                                                "pmem+tx-nosnap"]}}


class StreamScenario:
    def __init__(self, host, say):
        self.host, self.say = host, say

    def play(self):
        steps = [self.boot, self.without_cxl, self.volatile_memory_as_a_node, self.persistent_memory_as_a_file_system,
                 self.classes, self.nodes_and_pools, self.persistent_memory]
        for number, step in enumerate(steps, 1):
            self.say("", f"== {number}. {step.__name__.replace('_', ' ')}")
            step()
        return len(steps)

    def run(self, command, *patterns, seconds=120):
        return Scenario.expect(self.host.start(command, seconds), *patterns, seconds=seconds).output()

    def boot(self):
        self.host.boot()
        self.host.ready()

    def without_cxl(self):
        """Two CPU nodes and nothing else: what is absent is said with its reason."""
        self.run("penstock bench stream --list", r"^node 1: 1 CPUs, .*, DRAM, distances 21 10",
                 r"^2a +1  S0 -> numa:1, plain \(DRAM\)", "1a: a socket and its own persistent memory$", "no file system is mounted with dax",
                 "2a, 2b on CXL memory$", "no NUMA node is without CPUs")

    def memory(self, serial):
        """mem0 or mem1: as they were found."""
        listed = json.loads(self.run(f"cxl list -M -s {serial}"))
        return (listed[0] if isinstance(listed, list) else listed)["memdev"]

    def volatile_memory_as_a_node(self):
        memory = self.memory(1)
        self.run("echo online_movable >/sys/devices/system/memory/auto_online_blocks")  # not for the kernel itself
        self.run(f"cxl create-region -t ram -d decoder0.0 -m {memory}", '"type":"ram"')
        self.run("daxctl reconfigure-device --mode=system-ram dax0.0 2>/dev/null; daxctl list -D",
                 '"mode":"system-ram"', '"movable":true')
        self.run("cat /sys/devices/system/node/has_memory", "^0-2$")

    def persistent_memory_as_a_file_system(self):
        memory = self.memory(2)
        self.run(f"cxl create-region -t pmem -d decoder0.1 -m {memory}", '"type":"pmem"')
        self.device = json.loads(self.run("ndctl create-namespace -m fsdax", '"mode":"fsdax"'))["blockdev"]
        self.run(f"mkfs.ext4 -q -t ext4 -b 4096 /dev/{self.device} && mkdir -p {FOLDER} && "
                 f"mount -t ext4 -o dax /dev/{self.device} {FOLDER}")

    def classes(self):
        """Their names; of those on persistent memory that is all, for two sockets: an emulated device is slow."""
        self.run("penstock bench stream --list", r"^node 2: 0 CPUs, .*, CXL \(dax0\.0 in system-ram\)",
                 rf"^{self.device} on {FOLDER} with dax, .*CXL", r"^1b +1  S1 -> pmem\+tx \(pmem., CXL\)",
                 r"^1c +2  all -> pmem\+persist \(pmem., CXL\)$", r"^1c +2  all -> pmem\+persist \(pmem., CXL\), spread",
                 "1a: a socket and its own persistent memory$", "lies on a socket's own memory$")

    def measured(self, options, expected, *patterns):
        self.run(f"{SMALL} {options}", *patterns, seconds=170)
        rows = list(csv.DictReader(self.run("cat /tmp/stream.csv").splitlines()))
        missing = [f"{group}: {name}" for group, names in expected.items() for name in names
                   if not any(row["class"] == group and row["series"].startswith(name) for row in rows)]
        if missing:
            raise Failure(f"not measured: {missing}")

    def nodes_and_pools(self):
        self.measured("--class local,2a,2b,pool", FOUND, "all of .* pages asked for are on node 2", r"CXL / remote",
                      r"remote / local")

    def persistent_memory(self):
        self.measured("--class 1b --cores 0", PERSISTENT, "MAP_SYNC yes; pmem_persist is write-back",
                      "transactions / plain")
        self.run(f"{SMALL} --threads 2 --affinity spread --target pmem+persist:{FOLDER}",
                 r"^ +2 .*pmem\+persist", seconds=170)
        self.run(f"ls -A {FOLDER} | grep -v lost+found || true", r"\A\Z")
