"""Modeled collectives on pools of several devices: `penstock model collectives`, docs/scale.md."""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping

from penstock.bench import jobs, model
from penstock.bench.experiment import Experiment, Run
from penstock.bench.model import Plot, row

ENGINE, FASTEST = "pool, the engine's choice", "pool, the fastest plan"
PAPER, EMULATOR = "CCCL, Figure 10", "CCCL's schedules"
DEVICES, BY_DEVICES = (1, 2, 4, 6, 12), "by devices"


def modelled(run: Run, *arguments: str) -> Dict[str, Any]:
    quick = ["--quick"] if run.settings.quick else []
    command = [str(run.tools.command), "model", "collectives", "--json", *quick, *arguments]
    found: Dict[str, Any] = json.loads(jobs.output(command, run.timeout(2), jobs.clean_environment()))
    return found


def micro(seconds: float) -> float:
    return seconds * 1e6


def add_growth(run: Run, growth: List[Mapping[str, Any]]) -> None:
    for each in growth:
        facts = {"procs": each["nodes"]}
        op = f"growth of {each['collective']}"
        for name, side in (("least", 0), ("greatest", 1)):
            run.add(model.theirs(f"{PAPER}, {name}", op, "growth", each["published"][side], procs=each["nodes"]),
                    row(f"{EMULATOR}, {name}", op, "growth", [each["model"][side]], **facts))
        run.add(row(FASTEST, op, "growth", [each["engine"]], **facts))


def add_calls(run: Run, group: str, found: Mapping[str, Any]) -> None:
    for call in found["calls"]:
        facts = {"bytes": call["bytes"] or None, "procs": call["nodes"], "group": group}
        op = call["collective"]
        run.add(row(ENGINE, op, "model_us", [micro(call["choice"]["seconds"])], **facts),
                row(FASTEST, op, "model_us", [micro(call["fastest"]["seconds"])], **facts))
        for network in call["networks"]:
            name = f"{network['name']}, {fraction_of(found, network['name']):.0%} of its line"
            run.add(row(name, op, "model_us", [micro(network["seconds"])], baseline=True, **facts))


def fraction_of(found: Mapping[str, Any], name: str) -> float:
    return next(float(each["fraction"]) for each in found["networks"] if each["name"] == name)


def add_devices(run: Run) -> None:
    """Adds figures for pools of more devices and for more nodes."""
    size, nodes = ("1M", "2,4,8") if run.settings.quick else ("8M", "2,4,6,8,12,16")
    for devices in (1, 6) if run.settings.quick else DEVICES:
        found = modelled(run, "--collective", "allreduce,allgather,alltoall", "--nodes", nodes, "--sizes", size, "--set",
                         f"devices={devices}")
        for call in found["calls"]:
            run.add(row(f"pool of {devices} device{'s' if devices > 1 else ''}", call["collective"], "model_us",
                        [micro(call["fastest"]["seconds"])], bytes=call["bytes"], procs=call["nodes"], group=BY_DEVICES))


def run(run: Run) -> None:
    few = ["--collective", "allreduce,allgather,broadcast,alltoall", "--nodes", "2,3,4,6,8,12", "--sizes", "1K,64K,1M,16M"]
    found = modelled(run, *([] if run.settings.quick else few))
    group = f"platform {found['platform']['name']}"
    growth = modelled(run, "--growth")["growth"]
    add_growth(run, growth)
    add_calls(run, group, found)
    add_devices(run)
    largest = max(call["bytes"] for call in found["calls"])
    most = max(call["nodes"] for call in found["calls"])
    for collective in dict.fromkeys(call["collective"] for call in found["calls"]):
        where = {"op": collective, "metric": "model_us", "group": group}
        if collective != "barrier":
            run.plot(Plot(f"scale-{collective}-nodes", f"{collective}, {largest >> 20} MB a rank, by nodes",
                          {**where, "bytes": largest}, x="procs", logx=False, unit="microseconds"),
                     Plot(f"scale-{collective}-bytes", f"{collective}, {most} nodes, by bytes", {**where, "procs": most},
                          unit="microseconds"))
    for each in dict.fromkeys(each["collective"] for each in growth):
        run.plot(Plot(f"scale-growth-{each}", f"growth of {each} over 3 nodes, chunks chosen to fit", {"op": f"growth of {each}", "metric": "growth"},
                      x="procs", logx=False, logy=False, unit="times as long"))
    for collective in dict.fromkeys(each.op for each in run.outcome.rows if each.group == BY_DEVICES):
        run.plot(Plot(f"scale-devices-{collective}", f"{collective} on pools of more devices, by nodes",
                      {"op": collective, "group": BY_DEVICES}, x="procs", logx=False, unit="microseconds"))


EXPERIMENT = Experiment(
    "scale", "Many nodes, several devices (modelled)", "Times of the engine's schedules on a pool of several devices, beside rings "
    "over networks at a stated fraction of their line rate; and the growth over 3 nodes that CCCL's emulator has: the "
    "paper does not say into how many chunks buffers are cut, and the model's numbers were chosen to fit.",
    source="CCCL, section 4.3 and Figure 10", emulated="All of it: a model runs the schedules on links that are shared max-min "
    "fair; nothing is measured.", run=run, order=200, needs="nothing")
