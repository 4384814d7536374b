"""Published figures of papers 1 to 3, as data: each point with its source and its kind.

`TEXT`: from the paper's prose. `DATA`: from the authors' public data behind a figure. Nothing is read off the pixels of
figures. `ACCESS_US` is the basis of the model of a real CXL device.

    cMPI: SC'25, Table 1 and Figures 5 to 11     OMB-CXL: PEARC'24     STREAMer: SC'23 workshops, Figures 5 to 8
"""

from __future__ import annotations

import csv
import functools
from dataclasses import dataclass
from typing import Iterable, List, Optional, Tuple

from penstock.bench import streamer
from penstock.bench.model import METRICS, Row, theirs

TEXT, DATA = "text point", "authors' data"
CLASSES = ("1a", "1b", "1c", "2a", "2b")  # STREAMer's test classes
KB, MB = 1 << 10, 1 << 20

# One serialized access to a CXL device, microseconds (cMPI, Table 1): a load that misses every cache (Intel MLC), and a
# store with its write-back (the authors' program).
ACCESS_US = (0.79, 2.2)
ACCESS_SOURCE = "cMPI, Table 1"


def class_of(group: Optional[str]) -> Optional[str]:
    """The class of STREAMer that a group names, or None."""
    return next((each for each in (group or "").replace(":", " ").split() if each in CLASSES), None)


def fits_words(wanted: Iterable[str], op: str, group: Optional[str]) -> bool:
    """True if all these words describe the operation.

    >>> fits_words(("get", "pscw"), "get latency", "post, start, complete, wait"), fits_words(("get", "pscw"), "put pscw", None)
    (True, False)
    """
    named = f"{group or ''} {op}".lower().replace("post, start, complete, wait", "pscw")
    return all(word in named for word in wanted)


@dataclass(frozen=True)
class Point:
    """One published figure, or one that holds for a range of message sizes (`low` to `high` bytes).

    `op`: words that the operation's name must contain, for example ("get", "pscw"); `procs`: processes or threads, if
    the paper gives them; `about`: the paper calls the figure approximate or a bound; `words`: the paper's words.
    """

    experiment: str
    series: str
    source: str
    metric: str
    value: float
    op: Tuple[str, ...] = ()
    group: Optional[str] = None
    low: Optional[int] = None
    high: Optional[int] = None
    procs: Optional[int] = None
    kind: str = TEXT
    about: bool = False
    words: str = ""

    @property
    def place(self) -> str:
        """The paper's table or figure, and the part of it."""
        return f"{self.source}, {self.group}" if self.group else self.source

    def fits(self, op: str, metric: str, group: Optional[str]) -> bool:
        """True if rows of this operation measure the same thing."""
        of_group = self.group is None or group is None or self.group in group.replace(":", " ").split()
        classless = self.kind == DATA and class_of(group) is None
        return metric == self.metric and (of_group or classless) and fits_words(self.op, op, group)


@dataclass(frozen=True)
class Crossover:
    """The message size above which, in the paper, the network is faster."""

    experiment: str
    op: Tuple[str, ...]
    metric: str
    bytes: int
    source: str
    words: str


def _table1() -> List[Point]:
    def pair(series: str, latency_ns: float, bandwidth_MBps: float, tool: str, bound: bool = False) -> List[Point]:
        return [Point("table1", series, "cMPI, Table 1", "latency_us", latency_ns / 1e3, about=bound, words=tool),
                Point("table1", series, "cMPI, Table 1", "bandwidth_MBps", bandwidth_MBps, words=tool)]

    return [*pair("main memory", 100, 132_800, "Intel MLC"),
            *pair("TCP, plain Ethernet NIC", 16_000, 117.8, "iPerf"),
            *pair("TCP, ConnectX-6 Dx", 18_000, 11_500, "iPerf"),
            *pair("RoCEv2, ConnectX-6 Dx", 1_600, 10_800, "perftest"),
            *pair("RoCEv2, ConnectX-3", 2_000, 7_000, "vendor's report; a bound", True),
            *pair("InfiniBand, ConnectX-6", 600, 25_000, "vendor's report; a bound", True),
            *pair("CXL, cached, no flush", 790, 9_900, "Intel MLC: a dependent load"),
            *pair("CXL, with flush", 2_200, 9_500, "the authors' program: a store and its write-back")]


def _one_sided() -> List[Point]:
    """Points of the extended OSU programs, which time Get including post, start, complete and wait."""
    get = ("get", "pscw")

    def bandwidth(series: str, value: float, words: str, procs: int, low: int, high: int, about: bool = False) -> Point:
        return Point("rma", series, "cMPI, Figure 5", "bandwidth_MBps", value, get, None, low, high, procs, TEXT, about, words)

    def latency(series: str, value: float, words: str, high: int) -> Point:
        return Point("rma", series, "cMPI, Figure 6", "latency_us", value, get, None, 1, high, None, TEXT, True, words)

    return [bandwidth("CXL", 8_600, "saturates from 16 KB", 16, 16 * KB, 16 * KB, True),
            bandwidth("CXL", 7_420, "at 16 KB", 8, 16 * KB, 16 * KB),
            bandwidth("TCP, ConnectX-6 Dx", 5_660, "at 16 KB", 32, 16 * KB, 16 * KB),
            bandwidth("TCP, ConnectX-6 Dx", 10_150, "large messages", 32, 8 * MB, 8 * MB),
            bandwidth("TCP, plain Ethernet", 120, "converges", 32, 8 * MB, 8 * MB, True),
            latency("CXL", 12, "flat up to 16 KB, then in proportion to the size", 16 * KB),
            latency("TCP, plain Ethernet", 630, "small messages", 16 * KB),
            latency("TCP, ConnectX-6 Dx", 620, "small messages", 16 * KB)]


def _two_sided() -> List[Point]:
    def bandwidth(series: str, value: float, words: str, procs: Optional[int]) -> Point:
        return Point("pt2pt", series, "cMPI, Figure 7", "bandwidth_MBps", value, (), None, 8 * MB, 8 * MB, procs, TEXT,
                     True, words)

    def latency(series: str, value: float, words: str, high: int) -> Point:
        return Point("pt2pt", series, "cMPI, Figure 8", "latency_us", value, (), None, 1, high, None, TEXT, True, words)

    return [bandwidth("CXL", 6_050, "saturates, 30 % under one-sided: two copies", None),
            bandwidth("TCP, ConnectX-6 Dx", 12_500, "a lower bound, 32 ranks", 32),
            bandwidth("TCP, plain Ethernet", 120, "converges", None),
            latency("CXL", 12, "rises in proportion to the size from 64 KB", 64 * KB),
            latency("TCP, plain Ethernet", 160, "small messages", 64 * KB),
            latency("TCP, ConnectX-6 Dx", 55, "below 256 KB", 256 * KB)]


def _cells() -> List[Point]:
    def best(cell: int, value: float, at: int, words: str, about: bool = False) -> Point:
        return Point("cells", f"CXL, cells of {cell} KB", "cMPI, Figure 9", "bandwidth_MBps", value, (), None, at, at, 32,
                     TEXT, about, words)

    return [best(16, 3_600, 8 * KB, "best, messages of 8 KB"), best(32, 3_900, 16 * KB, "best, messages of 16 KB"),
            best(64, 6_000, 64 * KB, "messages above 64 KB; larger cells gain nothing", True)]


def _coherence() -> List[Point]:
    def stored(group: str, series: str, value: float, size: int, words: str) -> Point:
        return Point("coherence", series, "cMPI, Figure 11", "latency_us", value, ("write",), group, size, size, None, TEXT, True,
                     words)

    found = [stored(group, f"{group}, {end} end", value, 64, "memset of up to 64 B: 2 to 3 µs")
             for group in ("clflush", "clflushopt") for end, value in (("lower", 2), ("upper", 3))]
    return [*found, stored("uncached", "uncached", 4_096, 2 * KB,
                           "a lower bound above 2 KB; fits memset's byte stores on uncached memory from there, 2 µs each")]


def _placement() -> List[Point]:
    def ratio(place: str, value: float, words: str) -> Point:
        return Point("placement", f"{place}, CXL to emulated Ethernet", "OMB-CXL, section 5", "ratio", value,
                     ("latency",), about=True, words=words)

    emulated = "OMB-CXL, Table 2"
    return [ratio("HH", 9.5, "times lower latency, small messages, on average; Ethernet wins for large ones"),
            ratio("HD, DH, DD", 10, "times lower latency over all sizes; the emulator measures itself"),
            *(Point("placement", place, "OMB-CXL, section 5", "copies", value, ("copies",), words="of a long message")
              for place, value in (("HH", 2), ("HD", 1), ("DH", 1), ("DD", 1))),
            Point("placement", "emulated CXL", emulated, "latency_us", 7, ("memory",), words="MLC within QEMU"),
            Point("placement", "emulated CXL", emulated, "bandwidth_MBps", 7, ("memory",), words="MLC within QEMU"),
            Point("placement", "emulated Ethernet", emulated, "latency_us", 150, ("memory",), words="iPerf within QEMU"),
            Point("placement", "emulated Ethernet", emulated, "bandwidth_MBps", 60, ("memory",), words="iPerf within QEMU")]


_CORES = {"Socket0": "socket 0", "Socket1": "socket 1", "Socket0Socket1": "both sockets"}
_MEMORY = {"Socket0DDR5DAX": "socket 0's DDR5 as PMem", "Socket1DDR5DAX": "socket 1's DDR5 as PMem", "CXLDAX": "CXL as PMem",
           "CXLDDR4": "CXL", "Socket0DDR4": "socket 0's DDR4", "Socket1DDR4": "socket 1's DDR4",
           "Socket0DDR5": "socket 0's DDR5", "Socket1DDR5": "socket 1's DDR5"}


@functools.lru_cache(maxsize=None)
def stream_data() -> Tuple[Point, ...]:
    """STREAMer's data behind Figures 5 to 8. group: the test class, "1a" to "2b"; series: cores, memory, affinity.

    "Both" are both sockets; DDR4 without CXL is the paper's setup 2.

    >>> [point.value for point in stream_data() if point.group == "1b" and "CXL" in point.series and point.procs == 10
    ...  and point.op == ("copy",)]
    [8817.0, 8274.0]
    """
    points = []
    for row in csv.DictReader(streamer.CSV.splitlines()):
        cores, memory, affinity = row["series"].split("_")
        name = f"{_CORES[cores]} → {_MEMORY[memory]}, {affinity.lower()}"
        for kernel in ("copy", "scale", "add", "triad"):
            points.append(Point("stream", name, "STREAMer, Figures 5 to 8", "bandwidth_MBps", float(row[kernel]),
                                (kernel,), row["class"], procs=int(row["threads"]), kind=DATA))
    return tuple(points)


@functools.lru_cache(maxsize=None)
def points() -> Tuple[Point, ...]:
    """All published points."""
    text: Iterable[Point] = (*_table1(), *_one_sided(), *_two_sided(), *_cells(), *_coherence(), *_placement())
    return (*text, *stream_data())


def rows(experiment: str) -> List[Row]:
    """Rows from the papers' text for an experiment, each at the smallest size that it holds for.

    >>> [(row.series, row.op, row.median) for row in rows("table1")][-1]
    ('CXL, with flush', 'bandwidth', 9500)
    """
    return [theirs(each.series, " ".join(each.op) or each.metric.split("_")[0], each.metric, each.value, bytes=each.low,
                   group=each.place, procs=each.procs or 1)
            for each in points() if each.experiment == experiment and each.kind == TEXT and each.metric in METRICS]


def crossovers() -> Tuple[Crossover, ...]:
    return (Crossover("rma", ("get", "pscw"), "bandwidth_MBps", 16 * KB, "cMPI, Figure 5",
                      "ConnectX-6 Dx wins above 16 KB with 16 or 32 ranks"),
            Crossover("rma", ("get", "pscw"), "latency_us", 256 * KB, "cMPI, Figure 6",
                      "ConnectX-6 Dx wins above 256 KB"))
