#!/usr/bin/env python3
"""Writes the page and the plots of gpu.py's results. By hand: lab/bench/gpu_page.py OUT draws those of OUT/gpu.json again."""

import json
import statistics
import sys
from pathlib import Path

BAR_OF_CEILING, BAR_OVER_SOCKETS, BAR_LATENCY = 0.9, 5, 2  # the bars that a GPU machine must meet
MB = 1 << 20


def medians(rows, *keys):
    """Groups rows with the same keys; returns these keys with the median of each number."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return [{**same[0], **{name: statistics.median(row[name] for row in same) for name, value in same[0].items() if isinstance(value, float)}}
            for same in groups.values()]


def ceiling(results):
    """GB/s of one process's copies in the slower direction, at its best size; None if not
    measured."""
    best = {}
    for row in results["limits"]:
        if row["operation"] == "pinned copy" and (row["processes"], row["streams"]) == (1, 1) and row["way"] != "both ways":
            best[row["way"]] = max(best.get(row["way"], 0), row["GBps"])
    return min(best.values()) if best else None


def sharing(row):
    """Ranks share one link: the bytes that all of them move over it in one direction, divided by
    the bytes that one rank's bus bandwidth counts."""
    return max(1, row["ranks"] - 1) if row["operation"] == "broadcast" else row["ranks"]


def table(title, columns, rows):
    if not rows:
        return []
    lines = ["", f"## {title}", "", "| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows]


def size_name(count):
    for unit, name in ((1 << 30, "GB"), (MB, "MB"), (1 << 10, "KB")):
        if count >= unit:
            return f"{count / unit:g} {name}"
    return f"{count} B"


def collective_rows(results):
    rows = medians([row for row in results["measured"] if "bus_GBps" in row], "library", "operation", "ranks", "bytes")
    theirs = {(row["operation"], row["ranks"], row["bytes"]): row for row in rows if row["library"] == "NCCL sockets"}
    most = ceiling(results)
    for row in rows:
        other = theirs.get((row["operation"], row["ranks"], row["bytes"]))
        row["over_sockets"] = other["seconds"] / row["seconds"] if other and row["library"] == "penstock" else None
        row["of_ceiling"] = row["bus_GBps"] * sharing(row) / most if most else None
    return rows


def small_rows(results):
    """One launch compared with streams: microseconds of each, and how much faster the launch is."""
    rows = medians(results.get("small", []), "form", "ways", "operation", "ranks", "bytes")
    streams = {(row["ways"], row["operation"], row["ranks"], row["bytes"]): row["seconds"] for row in rows if row["form"] == "streams"}
    return [(row["operation"], f"{row['ranks']} {row['ways']}", size_name(row["bytes"]), f"{row['seconds'] * 1e6:.1f}", f"{there * 1e6:.1f}",
             f"{there / row['seconds']:.2f}")
            for row in rows if row["form"] == "one launch"
            for there in [streams.get((row["ways"], row["operation"], row["ranks"], row["bytes"]))] if there]


def verdicts(results):
    """Whether the bars are met, in words."""
    ours = [row for row in collective_rows(results) if row["library"] == "penstock"]
    lines = []
    large = [row for row in ours if row["bytes"] >= 16 * MB and row["of_ceiling"]]
    if large:
        worst = min(large, key=lambda row: row["of_ceiling"])
        lines.append(f"- Bus bandwidth from 16 MB, over what copies of the same run allow (bar {BAR_OF_CEILING}): {worst['of_ceiling']:.2f} at "
                     f"worst ({worst['operation']}, {worst['ranks']} ranks, {size_name(worst['bytes'])}).")
    faster = [row for row in ours if row["bytes"] >= MB and row["over_sockets"]]
    if faster:
        worst = min(faster, key=lambda row: row["over_sockets"])
        lines.append(f"- Over NCCL's sockets from 1 MB (bar {BAR_OVER_SOCKETS}): {worst['over_sockets']:.1f} times as fast at worst "
                     f"({worst['operation']}, {size_name(worst['bytes'])}).")
    small = [row for row in ours if row["operation"] == "all_reduce" and row["ranks"] == 2]
    if small:
        least = min(small, key=lambda row: row["bytes"])
        lines.append(f"- All-reduce of {size_name(least['bytes'])}: {least['seconds'] * 1e6:.1f} us (bar: {BAR_LATENCY} times NCCL's own within a "
                     "host, which several ranks on one GPU cannot have: NCCL refuses them but over sockets).")
    return lines


def shown(value, form):
    return "–" if value is None else format(value, form)


def page(results, plots):
    """Formats the results as a page of docs/results."""
    real = results["gpu"] != "stand-in"
    lines = [f"# Collectives of GPUs: {results['gpu']}", "",
             "By `ci/gpu.sh`. Ranks are processes that share the one GPU and its link: their kernels and copies take turns." if real else
             "By `ci/gpu.sh` on the stand-in for NVIDIA's driver: **the times mean nothing**, only that all of it runs."]
    if real:
        lines += ["", *verdicts(results)]
    lines += ["", *[f"![{name}]({name})" for name in plots]]
    lines += table("Parts", ["part", "outcome", "s"],
                   [(part["name"], part["outcome"].replace("|", "/").replace("\n", " ")[:200], part["seconds"]) for part in results["parts"]])
    lines += table("Limits: copies of pinned memory, all processes together",
                   ["way", "size", "streams", "parts of the memory", "processes", "on the same part", "us", "GB/s"],
                   [(row["way"], size_name(row["bytes"]), row["streams"], row["parts"], row["processes"], "yes" if row["same_part"] else "no",
                     f"{row['seconds'] * 1e6:.1f}", f"{row['GBps']:.2f}") for row in results["limits"] if "way" in row])
    lines += table("Limits: words, a round trip", ["how", "processes", "us"],
                   [(row["operation"], row.get("processes", "–"), row.get("left_out") or f"{row['seconds'] * 1e6:.2f}")
                    for row in results["limits"] if "way" not in row])
    lines += table("Collectives (medians; bus bandwidth as nccl-tests define it; CPU: of rank 0)",
                   ["library", "operation", "ranks", "size", "us", "bus GB/s", "of the ceiling", "over NCCL sockets", "CPU us"],
                   [(row["library"], row["operation"], row["ranks"], size_name(row["bytes"]), f"{row['seconds'] * 1e6:.1f}",
                     f"{row['bus_GBps']:.3f}", shown(row["of_ceiling"], ".2f"), shown(row["over_sockets"], ".1f"),
                     f"{row['cpu_seconds'] * 1e6:.1f}") for row in collective_rows(results)])
    lines += table("Small calls: one launch beside streams (medians). Processes get slices of the GPU's time by turns; kernels of threads run "
                   "beside each other, as where each rank has a GPU",
                   ["operation", "ranks", "size", "one launch, us", "streams, us", "times as fast"], small_rows(results))
    lines += table("Multiprocessors: blocks of one kernel at most, each on one of them (ours: what the library launched; 0: copy engines alone; "
                   "NCCL's: a block for each channel, as its log tells)",
                   ["library", "operation", "size", "blocks"],
                   [(row["library"], row["operation"], size_name(row["bytes"]), "not told" if row["blocks"] is None else row["blocks"])
                    for row in results.get("multiprocessors", [])])
    lines += table("nccl-tests 2.19.6, out of place", ["library", "program", "size", "us", "bus GB/s", "wrong values"],
                   [(row["library"], row["program"], size_name(row["bytes"]), row["microseconds"], row["bus_GBps"], row["wrong"])
                    for row in results["nccl_tests"]])
    lines += table("What is used during all_gather of 64 MB", ["library", "share of time in which a kernel ran, %", "cores busy for a rank"],
                   [(row["library"], row["gpu_percent"], row["cores_of_rank_0"]) for row in results["utilization"]])
    lines += table("FSDP2", ["back end", "ranks", "parameters", "steps/s", "first loss", "last loss", "CPU s of rank 0"],
                   [(row["backend"], row["ranks"], row["parameters"], f"{1 / row['median_seconds']:.3f}", f"{row['losses'][0]:.5f}",
                     f"{row['losses'][-1]:.5f}", f"{row['cpu_seconds']:.1f}") for row in results["training"]])
    return "\n".join(lines) + "\n"


def draw_collectives(results, pyplot, path):
    rows = [row for row in collective_rows(results) if row["ranks"] == 2 and row["library"] in ("penstock", "NCCL sockets")]
    operations = sorted({row["operation"] for row in rows})
    if not operations:
        return False
    figure, all_axes = pyplot.subplots(1, len(operations), figsize=(4 * len(operations), 3.5), squeeze=False)
    for axes, operation in zip(all_axes[0], operations):
        for library in ("penstock", "NCCL sockets"):
            points = sorted((row["bytes"], row["bus_GBps"]) for row in rows if (row["operation"], row["library"]) == (operation, library))
            if points:
                axes.loglog(*zip(*points), marker="o", label=library)
        if ceiling(results):
            axes.axhline(ceiling(results) / 2, linestyle=":", label="copies / 2")
        axes.set(title=operation, xlabel="bytes", ylabel="bus GB/s")
        axes.legend()
    figure.tight_layout()
    figure.savefig(path)
    return True


def draw_limits(results, pyplot, path):
    rows = [row for row in results["limits"] if "way" in row and (row["processes"], row["streams"]) == (1, 1)]
    if not rows:
        return False
    figure, axes = pyplot.subplots(figsize=(5, 3.5))
    for way in sorted({row["way"] for row in rows}):
        axes.semilogx(*zip(*sorted((row["bytes"], row["GBps"]) for row in rows if row["way"] == way)), marker="o", label=way)
    axes.set(title="copies of pinned memory", xlabel="bytes", ylabel="GB/s")
    axes.legend()
    figure.tight_layout()
    figure.savefig(path)
    return True


def plot(folder):
    """Draws the plots and prints their names."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    results = json.loads((folder / "gpu.json").read_text())
    for name, draw in (("gpu-limits.svg", draw_limits), ("gpu-collectives.svg", draw_collectives)):
        if draw(results, pyplot, folder / name):
            print(name)


if __name__ == "__main__":
    plot(Path(sys.argv[1]))
