"""Messages of CG and miniAMR on many hosts, simulated by SimGrid: `penstock model scaling`, docs/scale.md."""

from __future__ import annotations

import json
import shutil
from typing import Any, Mapping

from penstock.bench import jobs
from penstock.bench.experiment import Absent, Experiment, Run
from penstock.bench.model import Plot, row

PARTS = ("latency", "bandwidth", "contention", "wait")


def series_of(case: Mapping[str, Any]) -> str:
    devices = case["devices"]
    pool = "" if devices is None else f", a pool of {devices} device{'s' if devices > 1 else ''}"
    return f"{case['network']}{pool}"


def add(run: Run, case: Mapping[str, Any]) -> None:
    facts = {"procs": case["nodes"], "group": f"{case['program']}, {case['set']}"}
    communication = case["total_s"] - case["compute_s"]
    run.add(row(series_of(case), "communication", "model_us", [communication * 1e6], **facts))
    for part in PARTS:
        run.add(row(series_of(case), part, "model_us", [max(case[f"{part}_s"], 0.0) * 1e6], **facts))


def draw(run: Run, found: Mapping[str, Any]) -> None:
    """Plots each program and data set by number of hosts, and how its time divides on the most hosts."""
    units = {each["name"]: each["unit"] for each in found["programs"]}
    most = max(case["nodes"] for case in found["cases"])
    for program, set_ in dict.fromkeys((case["program"], case["set"]) for case in found["cases"]):
        group, id_ = f"{program}, {set_}", f"{program}-{set_}".replace(".", "-")
        run.plot(Plot(f"scaling-{id_}", f"Communication of {units[program]}, {set_}", {"op": "communication", "group": group}, x="procs",
                      unit="microseconds"))
        for part in PARTS[:3]:
            run.plot(Plot(f"scaling-{id_}-{part}", f"{part} of {units[program]} on {most} hosts, {set_}",
                          {"op": part, "group": group, "procs": most}, x="series", logx=False, logy=False, unit="microseconds"))


def run(run: Run) -> None:
    if not shutil.which("smpirun"):
        raise Absent("no smpirun is on the PATH: apt install libsimgrid-dev, or ci/install.sh scaling")
    usual = ["--nodes", "1,2,4,8,16", "--set", "table1,section4.2", "--devices", "0,1,2,4,6"]
    quick = ["--class", "A", "--nodes", "2,4", "--set", "table1", "--devices", "0,1"]
    command = [str(run.tools.command), "model", "scaling", "--json", *(quick if run.settings.quick else usual)]
    found = json.loads(jobs.output(command, run.timeout(3), jobs.clean_environment()))
    for case in found["cases"]:
        add(run, case)
    draw(run, found)


EXPERIMENT = Experiment(
    "scaling", "CG and miniAMR on many hosts (simulated)", "The time that an outer iteration of CG and a time step of miniAMR spend on "
    "messages with 8 ranks a host, over CXL with and without a limit of the pool's devices, and over networks; and what of it is "
    "latency, bandwidth, contention and wait.", source="cMPI, section 4.4 and Figure 10", emulated="All of it: SimGrid replays the "
    "messages; nothing is measured.", run=run, order=210, needs="SimGrid (libsimgrid-dev)")
