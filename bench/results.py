#!/usr/bin/env python3
"""Runs the benchmarks and keeps what they print as a page of docs/results: one page per machine and date.

    make results                    # build, run ci/bench.sh, write docs/results/DATE-CPU.md, redo the index
    bench/results.py --build build  # the same with what is built already
    bench/results.py --index        # only the index, docs/results/README.md

A page names the machine, the commit and the command. It is never edited by hand: a figure that someone
doubts is measured again.
"""

import argparse
import datetime
import os
import pathlib
import platform
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs/results"
INTRODUCTION = """# Results

What `make results` measured, one page per machine and date, as the tools printed it. Each table holds medians
of interleaved rounds with the baselines measured in the same run: compare within a table, not between pages.
[Measurements that decided a design](design-measurements.md) are kept apart: they compare with code that is gone.

| date | machine | commit |
|---|---|---|
"""


def text_of(*command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def cpu_facts():
    facts = dict(re.findall(r"^([^:\n]+):\s+(.*)$", text_of("lscpu"), re.MULTILINE))
    family, model = facts.get("CPU family"), facts.get("Model")
    name = facts.get("Model name", platform.processor())
    return f"{name} (family {family}, model {model})", facts


def header(date, command):
    model, facts = cpu_facts()
    memory_kib = int(re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text())[1])
    commit = text_of("git", "rev-parse", "--short", "HEAD")
    changed = " with local changes" if text_of("git", "status", "--porcelain", "-uno") else ""
    rows = [
        ("processor", f"{model}, {os.cpu_count()} CPUs"
                      f"{', a virtual machine' if 'Hypervisor vendor' in facts else ''}"),
        ("caches", ", ".join(f"{name[:-6]} {facts[name]}" for name in ("L1d cache", "L2 cache", "L3 cache") if name in facts)),
        ("memory", f"{memory_kib / 2**20:.0f} GiB; the pools lie in /dev/shm"),
        ("system", f"{platform.system()} {platform.release()}, {text_of('g++', '--version').splitlines()[0]}"),
        ("load at the start", f"{os.getloadavg()[0]:.2f}"),
        ("commit", commit + changed),
        ("command", f"`{command}`"),
    ]
    lines = [f"# {date}, {model}", "", "| | |", "|---|---|"]
    return "\n".join(lines + [f"| {name} | {value} |" for name, value in rows]) + "\n"


def sections(output):
    """The printed blocks, each begun by a line '== TITLE', as sections with the text as it was."""
    blocks = re.split(r"^== (.*)\n", output, flags=re.MULTILINE)
    page = ""
    for title, text in zip(blocks[1::2], blocks[2::2]):
        page += f"\n## {title}\n\n```\n{text.strip(chr(10))}\n```\n"
    return page


def run_benchmarks(build):
    """Prints what ci/bench.sh prints, and returns it; exits when it fails."""
    lines = []
    with subprocess.Popen(["ci/bench.sh"], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                          env={**os.environ, "BUILD": str(build)}) as process:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines.append(line)
    if process.returncode != 0:
        sys.exit(f"results: ci/bench.sh failed (status {process.returncode}); no page was written")
    return "".join(line for line in lines if not line.startswith("results: "))


def write_index():
    rows = []
    for page in sorted(PAGES.glob("20*.md"), reverse=True):
        text = page.read_text()
        date, model = re.match(r"# (\S+), (.*)\n", text).groups()
        commit = re.search(r"^\| commit \| (.*) \|$", text, re.MULTILINE)[1]
        rows.append(f"| [{date}]({page.name}) | {model} | {commit} |\n")
    (PAGES / "README.md").write_text(INTRODUCTION + "".join(rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"), help="the folder that is built")
    parser.add_argument("--index", action="store_true", help="only write the index anew")
    options = parser.parse_args()
    if not options.index:
        if not (ROOT / options.build / "bin/ring_bench").exists():
            sys.exit(f"results: {options.build}/bin/ring_bench is absent, the benchmarks are not built; run: make results")
        date = datetime.date.today().isoformat()
        top = header(date, "make results")
        page = top + sections(run_benchmarks(options.build))
        name = re.sub(r"[^a-z0-9]+", "-", cpu_facts()[0].lower().replace("(r)", "")).strip("-")
        PAGES.mkdir(exist_ok=True)
        path = PAGES / f"{date}-{name}.md"
        path.write_text(page)
        print(f"results: {path.relative_to(ROOT)}")
    write_index()
    return 0


if __name__ == "__main__":
    sys.exit(main())
