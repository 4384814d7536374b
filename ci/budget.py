#!/usr/bin/env python3
"""Fails when a step of .ci/run takes 1.5 times the CPU time that ci/budget.txt gives it.

    ci/budget.py unit                    # prints the CPU time of a fixed piece of work here and now, in seconds
    ci/budget.py check SPENT UNIT ...    # judges the steps in the file SPENT; UNIT: what the former printed

Machines differ, and so does one machine whose cores are shared. So a budget counts units: the CPU time of a fixed piece of work,
done on all cores at once, as the steps are. CI measures the unit before the steps and after them, and takes the mean.
The work is a compilation, which most of the steps' time is. A line of SPENT: the step, a tab, what bash's `times` prints
of a user's and the system's time.
"""
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

BUDGET = Path(__file__).resolve().parent / "budget.txt"
ALLOWED = 1.5
WORK = """
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <unordered_map>
template <int N> struct Table {
  std::map<std::string, std::unordered_map<int, std::function<int(int)>>> rows;
  int of(const std::string& name, int key) {
    std::istringstream(name) >> key;
    rows[name][key] = [this](int more) { return N + more + static_cast<int>(rows.size()); };
    return rows[name][key](N);
  }
};
template <int... N> int all(std::integer_sequence<int, N...>) { return (Table<N>().of("a", N) + ...); }
int main() { return all(std::make_integer_sequence<int, 32>()); }
"""


def unit():
    """The CPU time of one compilation in seconds, when each core has one."""
    copies = len(os.sched_getaffinity(0))
    command = ["g++", "-std=c++20", "-O2", "-x", "c++", "-c", "-o", "/dev/null", "-"]
    compilers = [subprocess.Popen(command, stdin=subprocess.PIPE, text=True, env={**os.environ, "CCACHE_DISABLE": "1"})
                 for _ in range(copies)]
    for compiler in compilers:
        compiler.stdin.write(WORK)
        compiler.stdin.close()
    if any(compiler.wait() for compiler in compilers):
        sys.exit("ci/budget.py: error: g++ does not compile the fixed piece of work; to fix: ci/install.sh build")
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) / copies


def seconds_of(times):
    """Of "1m2.5s 0m1.5s": 64.0."""
    return sum(60 * int(minutes) + float(seconds) for minutes, seconds in re.findall(r"(\d+)m([\d.]+)s", times))


def shares(text):
    """Units of each step, from lines "UNITS STEP". Text after # is a comment."""
    lines = [line.split("#")[0].split(None, 1) for line in text.splitlines()]
    return {line[1].strip(): float(line[0]) for line in lines if line}


def verdicts(budget, spent, unit_s):
    """What each step used, and the errors."""
    said, errors = [], []
    for step, seconds in spent.items():
        units = seconds / unit_s
        share = budget.get(step)
        if share is None:
            errors.append(f"{step} has no share in ci/budget.txt; to fix: add the line '{units:.0f} {step}' to it")
            continue
        said.append(f"{step}: {units:.0f} units of CPU time, its share is {share:.0f}")
        if units > ALLOWED * share:
            errors.append(
                f"{step} used {seconds:.0f} s of CPU time, {units / share:.1f} times its share of {share * unit_s:.0f} s; "
                f"at most {ALLOWED} times is allowed. To fix: find what grew (build/.ninja_log has the time of each "
                f"object, the ten slowest tests stand above), or, if it must be so, write '{units:.0f} {step}' into "
                "ci/budget.txt and the reason into the commit")
    errors += [f"{step} has a share in ci/budget.txt, but did not run; to fix: run it in .ci/run, or remove its line"
               for step in budget if step not in spent]
    return said, errors


def main(arguments):
    if arguments == ["unit"]:
        print(f"{unit():.2f}")
        return 0
    if len(arguments) < 3 or arguments[0] != "check":
        sys.exit("ci/budget.py: error: give 'unit', or 'check SPENT UNIT ...'")
    unit_s = sum(map(float, arguments[2:])) / len(arguments[2:])
    spent = dict(line.split("\t", 1) for line in Path(arguments[1]).read_text().splitlines())
    said, errors = verdicts(shares(BUDGET.read_text()), {step: seconds_of(times) for step, times in spent.items()}, unit_s)
    print("\n".join([f"ci: a unit is {unit_s:.2f} s of CPU time here", *(f"ci: {line}" for line in said),
                     *(f"ci: error: {line}" for line in errors)]))
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
