#!/usr/bin/env python3
"""One run on a machine with a GPU that answers the open questions of docs/gpu-runs.md, in under ten minutes, and compares two builds.

    ci/gpu_run.sh [OUT]     runs all experiments, writes gpu-run.json, gpu-run.md, log.txt and what explains failures into OUT

Takes the bundle of ci/gpu.sh --bundle, and that of an earlier commit if ci/gpu.sh --bundle-of has made one. Without a GPU everything
runs on the stand-in for NVIDIA's driver, in short form, and the times mean nothing. `--only PATTERN` runs the parts whose names
contain it.
"""
import json
import sys
from pathlib import Path

import gpu_experiments
import gpu_page
from gpu_runner import SOURCE, begin, options_of


def page(results):
    lines = ["# A run on a GPU", "", f"GPU: {results['gpu']}, {results['machine']['date']}, {results['machine']['cores']} cores. By `ci/gpu_run.sh`."]
    if results["gpu"] == "stand-in":
        lines.append("On the stand-in for NVIDIA's driver: **the times mean nothing**, only that all of it runs.")
    lines += gpu_page.table("Parts", ["part", "outcome", "s"], [(part["name"], part["outcome"].replace("\n", " ").replace("|", "/"), part["seconds"])
                                                                for part in results["parts"]])
    rows = [row for row in results["measured"] if "bus_GBps" in row]
    lines += gpu_page.table("Measured", ["what", "operation", "ranks", "size", "µs", "bus GB/s", "cores of rank 0"],
                            [(row["library"], row["operation"], row["ranks"], gpu_page.size_name(row["bytes"]), f"{row['seconds'] * 1e6:.1f}",
                              f"{row['bus_GBps']:.2f}", f"{row['cpu_seconds'] / row['seconds']:.2f}") for row in rows])
    lines += gpu_page.table("Before and after", ["mode", "operation", "ranks", "size", "µs before", "µs after", "before / after"],
                            gpu_experiments.compared(rows))
    return "\n".join(lines) + "\n"


def main():
    parser = options_of(__doc__, "gpu-run", 560)
    parser.add_argument("--before", type=Path, default=SOURCE / "build/gpu-before", help="bundle of an earlier commit")
    options = parser.parse_args()
    run = begin(options)
    for name in gpu_experiments.FILES:
        (options.out / name).unlink(missing_ok=True)
    experiments = gpu_experiments.Experiments(run, options.before if options.before.is_dir() else None)
    try:
        experiments.run_all()
    finally:
        (options.out / "gpu-run.json").write_text(json.dumps(run.results, indent=1))
        (options.out / "gpu-run.md").write_text(page(run.results))
    failed = [part for part in run.results["parts"] if part["outcome"].startswith("FAILED")]
    print(f"gpu_run: {len(run.results['parts']) - len(failed)} of {len(run.results['parts'])} parts passed or were left out, {len(failed)} "
          f"failed; {options.out}/gpu-run.md")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
