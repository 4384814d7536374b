#!/usr/bin/env python3
"""Tests Penstock on a GPU: right answers; latency and bandwidth compared with NVIDIA's NCCL and with plain copies; training.

    ci/gpu.sh [OUT]       builds what it can, runs all parts, writes gpu.json, gpu.md and plots into OUT

Several ranks share the one GPU. Without a GPU everything runs on the stand-in for NVIDIA's driver, in short form, and
the times mean nothing. Each part has a time limit, and so do all parts together; a part that fails does not stop the
others. `--only PATTERN` runs the parts whose names contain it.
"""
import json
import subprocess
import sys

import gpu_page
import gpu_parts
from gpu_runner import begin, options_of


def plots(run, out):
    """Returns the names of the plots made: none if no Python has matplotlib."""
    for python in (sys.executable, run.python):
        try:
            done = subprocess.run([python, gpu_page.__file__, out], capture_output=True, text=True, timeout=60, check=False)
        except (OSError, TypeError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            return done.stdout.split()
    return []


def main():
    options = options_of(__doc__, "gpu-results", 500).parse_args()
    run = begin(options)
    try:
        gpu_parts.run_all(run)
    finally:
        (options.out / "gpu.json").write_text(json.dumps(run.results, indent=1))
        (options.out / "gpu.md").write_text(gpu_page.page(run.results, plots(run, options.out)))
    outcomes = [part["outcome"] for part in run.results["parts"]]
    failed = [words for words in outcomes if words.startswith("FAILED")]
    without = [words for words in outcomes if words.startswith("left out")]
    print(f"gpu: {len(outcomes) - len(failed) - len(without)} of {len(outcomes)} parts passed, {len(failed)} failed, {len(without)} were "
          f"left out; {options.out}/gpu.md")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
