"""Checks `penstock model scaling`: compares CG on two ranks, measured and simulated with measured messages."""

from __future__ import annotations

import dataclasses
import json
import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Dict, List, Mapping, Sequence, Tuple

from penstock.bench import jobs
from penstock.bench.experiment import Absent, Experiment, Failed, Figures, Key, Run
from penstock.bench.experiments import pt2pt
from penstock.bench.model import Plot, row

ALLOWED = 0.10
# The model interpolates between two sizes. They are denser than pt2pt's, since protocols change in between.
SIZES = [8, *(1 << power for power in range(10, 21)), 1 << 22]
# As in lab/model/cg.cpp: elements of a vector, entries of a row; and outer iterations of a run. A fifth as many run
# untimed before, until the channels have grown: the model is calibrated with grown channels too.
CLASSES: Dict[str, Tuple[int, int, int]] = {"S": (1400, 7, 400), "W": (7000, 8, 200), "A": (14000, 11, 100), "B": (75000, 13, 20)}
QUICK_CLASSES = ("S",)
MESSAGES, WHOLE, COMPUTING = "messages alone", "with computation", "computation"


def op_of(name: str, what: str) -> str:
    return f"CG class {name}, {what}"


def measure(run: Run, series: str, kind: jobs.Transport, messages: str, cg: str, classes: Sequence[str]) -> Figures:
    """Measures messages of each size, and outer iterations of CG."""
    sizes = pt2pt.QUICK_SIZES if run.settings.quick else SIZES
    figures = {key: value for test in ("latency", *pt2pt.SWAPS)
               for key, value in pt2pt.measure(run, series, kind, [messages], test, 2, sizes).items() if key.metric != "bytes_socket"}
    for name in classes:
        elements, nonzeros, outer = CLASSES[name]
        words = [cg, "--na", str(elements), "--nonzer", str(nonzeros), "--outer", str(outer), "--untimed", str(outer // 5)]
        for what, more in ((MESSAGES, ["--skeleton"]), (WHOLE, [])):
            count, seconds, _, computing = jobs.lines_of(run, kind, [*words, *more])[-1]
            figures[Key(op_of(name, what), "time_us", procs=2)] = float(seconds) / int(count) * 1e6
            if what == WHOLE:
                figures[Key(op_of(name, COMPUTING), "time_us", procs=2)] = float(computing) / int(count) * 1e6
    return figures


def simulated(run: Run, name: str, folder: Path) -> Mapping[str, float]:
    """The simulated microseconds of communication in an outer iteration, for each measured network."""
    rows = [dataclasses.asdict(each) for each in run.outcome.rows]
    file = folder / "results.json"
    file.write_text(json.dumps({"experiments": {"pt2pt": {"rows": rows}}}))
    command = [str(run.tools.command), "model", "scaling", "--json", "--program", "cg", "--class", name, "--nodes", "2", "--per-node",
               "1", "--devices", "0", "--measured", str(file), "--set", "penstock-here"]
    found = json.loads(jobs.output(command, run.timeout(), jobs.clean_environment()))
    return {case["network"]: (case["total_s"] - case["compute_s"]) * 1e6 for case in found["cases"]}


def compare(run: Run, classes: Sequence[str]) -> None:
    measured = {(each.series, each.op): each.median for each in run.outcome.rows}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        for name in classes:
            try:
                found = simulated(run, name, Path(folder))
            except Failed as error:  # figures that fit no model, as on a busy machine
                run.lacks(f"CG class {name} is not simulated: {error}")
                continue
            for series, communication in found.items():
                times = {MESSAGES: communication, WHOLE: communication + measured[series, op_of(name, COMPUTING)]}
                for what, micro in times.items():
                    op = op_of(name, what)
                    run.add(row(f"{series}, simulated", op, "time_us", [micro], procs=2))
                    off = micro / measured[series, op] - 1
                    if abs(off) > ALLOWED:
                        run.lacks(f"{series}, {op}: simulated {off:+.0%} beside the measured time, {ALLOWED:.0%} are allowed")


def run(run: Run) -> None:
    if not shutil.which("smpirun"):
        raise Absent("no smpirun is on the PATH: apt install libsimgrid-dev, or ci/install.sh scaling")
    if not jobs.enough_cores(2):
        raise Absent(f"{jobs.crowd(2)}: times would show the scheduler")
    messages, cg = (str(run.tools.compiled(f"bench/{name}.c")) for name in ("messages", "cg"))
    classes = QUICK_CLASSES if run.settings.quick else tuple(CLASSES)
    names: List[str] = [jobs.TCP, *jobs.own_modes(run)]
    kinds = jobs.transports(run, 2, names)
    run.rounds({name: partial(measure, run, name, kind, messages, cg, classes) for name, kind in kinds.items()}, 7,
               baselines=jobs.BASELINES)
    compare(run, classes)
    for what in (MESSAGES, WHOLE):
        for name in classes:
            run.plot(Plot(f"scaling-check-{name}-{what}".replace(" ", "-"), op_of(name, what), {"op": op_of(name, what)}, x="series",
                          logx=False, logy=False, unit="microseconds of an outer iteration"))


EXPERIMENT = Experiment(
    "scaling_check", "CG on two ranks, simulated and measured", "Outer iterations of CG's skeleton and of CG with its arithmetic on "
    "two ranks, beside what SimGrid says by messages that were measured in the same rounds; 10 % are allowed.",
    source="cMPI, section 4.4", emulated="Two emulated hosts are processes of one, each bound to a core; the pool is its memory, and "
    "TCP its loopback.", run=run, order=215, needs="SimGrid (libsimgrid-dev), MPICH, two cores")
