#!/usr/bin/env python3
"""Compiles an include of each folder's headers as one target would, and compares with what it may see.

    layers_test.py --compiler c++ --source . --include DIR --include DIR --sees base arch coherence
"""
import argparse
import subprocess
import sys
from pathlib import Path

FOLDERS = {
    **{name: f"src/{name}" for name in ("base", "arch", "coherence", "sync", "pool", "arena", "persist", "litmus",
                                        "group", "offload", "coll", "gpu", "rma", "window", "transport", "messages", "capi")},
    **{name: f"plugins/{name}" for name in ("session", "ofi", "mpi", "nccl")},
    **{name: f"lab/{name}" for name in ("bench", "model", "accelerator")},
    **{name: name for name in ("fuzz", "sim")},
    "penstock": "include/penstock",  # what is installed
}


def headers_of(source, name):
    """One header is enough: a folder is reached as a whole. In sim they lie a folder deeper."""
    folder = source / FOLDERS[name]
    found = sorted(folder.glob("*.h*")) or sorted(folder.glob("memory/*.h*"))
    assert found, f"no header in {folder}"
    return f"{name}/{found[0].relative_to(folder)}"


def compiles(options, header, only_preprocess):
    step = "-E" if only_preprocess else "-fsyntax-only"
    run = subprocess.run([options.compiler, "-std=c++20", "-x", "c++", step, "-",
                          *(f"-I{folder}" for folder in options.include)],
                         input=f'#include "{header}"\n', capture_output=True, text=True)
    missing = f"{header}: No such file" in run.stderr or f"'{header}' file not found" in run.stderr
    assert run.returncode == 0 or missing, run.stderr
    return run.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--source", type=Path, required=True)
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("--sees", nargs="+", choices=FOLDERS, required=True)
    options = parser.parse_args()
    wrong = 0
    for name in FOLDERS:
        header, allowed = headers_of(options.source, name), name in options.sees
        if compiles(options, header, only_preprocess=allowed) == allowed:
            continue
        wrong += 1
        print(f'#include "{header}" {"does not compile" if allowed else "compiles"}')
    print(f"layers: {len(FOLDERS)} folders, {len(options.sees)} to be seen, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
