"""The command line of `penstock bench run`, `list` and `compare`."""

from __future__ import annotations

import argparse
import difflib
import json
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import List, NoReturn, Optional, Sequence, Tuple

from rich.console import Console

from penstock.bench import model, printing, running, sizes
from penstock.bench.experiment import Experiment, Settings, registry
from penstock.bench.model import Outcome, Results
from penstock.bench.places import Tools

EXIT_OK, EXIT_ERROR, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
MODES = ("software", "hardware", "uncached")


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        complain(message)
        print(f"penstock: see '{self.prog} --help'", file=sys.stderr)
        raise SystemExit(EXIT_USAGE)


def complain(words: str) -> None:
    print(f"penstock: error: {words}", file=sys.stderr)


def size_list(text: str) -> Tuple[int, ...]:
    try:
        return sizes.parse_list([text])
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def count_list(text: str) -> Tuple[int, ...]:
    words = [word for word in text.split(",") if word.strip()]
    if not words or not all(word.strip().isdigit() and 1 <= int(word) <= 4096 for word in words):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of numbers of processes: give numbers from 1 to 4096, such as "
                                         "2,4,8")
    return tuple(dict.fromkeys(map(int, words)))


def mode_list(text: str) -> Tuple[str, ...]:
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for word in words:
        if word not in MODES:
            raise argparse.ArgumentTypeError(f"'{word}' is no mode to measure: give {', '.join(MODES)}")
    return words


def natural(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of at least 1")
    return int(text)


def parser() -> argparse.ArgumentParser:
    top = Parser(prog="penstock bench", description="Measure this machine: every table and figure of the papers that it "
                 "allows, with baselines in the same run.")
    top.add_argument("--command", type=Path, help=argparse.SUPPRESS)  # who runs this
    verbs = top.add_subparsers(dest="verb", required=True)
    run = verbs.add_parser("run", help="run experiments, all by default, and leave a report",
                           description="Run experiments, all by default. Ctrl-C keeps what was measured.")
    run.add_argument("experiments", nargs="*", metavar="EXPERIMENT", help="names that `penstock bench list` prints")
    run.add_argument("--report", type=Path, metavar="DIR", help="leave results.json, results.csv and report.html there")
    run.add_argument("--json", type=Path, metavar="FILE", help="write the results to this file too, as JSON")
    run.add_argument("--csv", type=Path, metavar="FILE", help="write the results to this file too, as CSV")
    run.add_argument("--sizes", type=size_list, metavar="N,…", help="bytes, also as 64K or 1M, in place of each "
                     "experiment's own")
    run.add_argument("--procs", type=count_list, metavar="N,…", help="ranks or threads, in place of each experiment's own")
    run.add_argument("--repeat", type=natural, metavar="N", help="rounds, in each of which all variants take their turn")
    run.add_argument("--quick", action="store_true", help="few sizes and rounds: whether it works, hardly how fast it is")
    run.add_argument("--mode", type=mode_list, metavar="MODE,…",
                     help="modes of Penstock's pools: software, hardware (default: both, where that is not many)")
    run.add_argument("--pool", metavar="SPEC", help="measure memory in this pool, which is left as found, and not in a temporary one")
    run.add_argument("--mpiexec", metavar="PATH", help="MPICH's, with mpicc beside it (default: found)")
    run.add_argument("--osu", metavar="DIR", help="a folder with OSU's or Intel's MPI benchmarks, built for that MPICH: "
                     "printed beside ours")
    run.add_argument("--timeout", type=float, default=120, metavar="SECONDS", help="for one measurement (default: 120)")
    run.add_argument("--limit", type=float, metavar="SECONDS", help="no further round of an experiment begins after them "
                     "(default: 30, 8 with --quick, none with --repeat)")
    listed = verbs.add_parser("list", help="list the experiments")
    listed.add_argument("--json", action="store_true", help="print JSON")
    compare = verbs.add_parser("compare", help="compare two runs", description="Compare two runs: what became better or worse "
                               "by more than the rounds of a run differ. Exit status 3: something became worse.")
    compare.add_argument("first", type=Path, metavar="A.json")
    compare.add_argument("second", type=Path, metavar="B.json")
    compare.add_argument("--json", action="store_true", help="print JSON")
    compare.add_argument("--all", action="store_true", help="also figures that did not change or are not judged")
    return top


def chosen(names: Sequence[str]) -> "Tuple[List[Experiment], List[str]]":
    """Those of the names that there are, all without names; and complaints about the others."""
    known = registry()
    complaints = []
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1, 0.5)
            complaints.append(f"there is no experiment '{name}'"
                              + (f"; did you mean '{near[0]}'?" if near else "") + " (see 'penstock bench list')")
    wanted = [known[name] for name in dict.fromkeys(names) if name in known] if names else list(known.values())
    return wanted, complaints


def command_of(options: argparse.Namespace) -> Path:
    if options.command:
        return Path(options.command)
    from penstock import _library

    return Path(_library.folder("bin", "penstock")) / "penstock"


def version_of(command: Path) -> str:
    import subprocess

    done = subprocess.run([str(command), "--version"], capture_output=True, text=True, check=False)
    return done.stdout.strip().split(" ")[-1] or "unknown"


def run(options: argparse.Namespace, words: Sequence[str]) -> int:
    console = printing.console()
    wanted, complaints = chosen(options.experiments)
    for each in complaints:
        complain(each)
    if not wanted:
        return EXIT_USAGE
    if options.osu and not os.path.isdir(options.osu):
        complain(f"--osu: {options.osu} is no folder: name the one that holds osu_latency, or IMB-MPI1")
        return EXIT_USAGE
    if options.report:
        try:
            running.check_folder(options.report)
        except running.FolderError as error:
            complain(f"{error}; the figures are printed only")
            complaints.append(str(error))
            options.report = None
    settings = Settings(options.sizes, options.procs, options.repeat, options.quick, options.mode, options.timeout,
                        options.limit, options.osu, options.pool)
    command = command_of(options)
    results = running.begin(shlex.join(["penstock", "bench", *words]), version_of(command), settings)
    printing.print_machine(console, results.machine, results.warnings)
    whole = measure(console, wanted, settings, Tools(command, options.mpiexec), results, options.report)
    written = leave(results, options)
    for path in written:
        console.print(f"written: {path}", markup=False)
    failed = [name for name, outcome in results.experiments.items() if outcome.status == "failed"]
    if not whole:
        complain("interrupted; what was measured is kept" if written else "interrupted")
        return EXIT_INTERRUPTED
    return EXIT_USAGE if complaints else EXIT_ERROR if failed else EXIT_OK


def measure(console: Console, wanted: Sequence[Experiment], settings: Settings, tools: Tools, results: Results,
            folder: Optional[Path]) -> bool:
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    show, stop = printing.progress_line(console)

    def finished(name: str, outcome: Outcome) -> None:
        printing.print_outcome(console, name, outcome)

    with tools:
        try:
            return running.run_all(wanted, settings, tools, results, folder, show, finished)
        finally:
            stop()


def leave(results: Results, options: argparse.Namespace) -> List[str]:
    """Writes what was asked for; the paths."""
    written = []
    for path, write in ((options.json, model.write), (options.csv, running.write_csv)):
        if path:
            try:
                write(results, path)
                written.append(str(path))
            except OSError as error:
                complain(f"cannot write {path}: {error.strerror}")
    if options.report:
        running.keep(results, options.report)
        written += [str(options.report / "results.json"), str(options.report / "results.csv")]
        try:
            written += running.write_report(results, options.report)
        except Exception as error:  # the figures are kept whatever the page says
            complain(f"no page was drawn: {type(error).__name__}: {error}")
    return written


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    if options.verb == "list":
        experiments = registry().values()
        if options.json:
            print(json.dumps([{"name": each.name, "title": each.title, "about": each.about, "source": each.source,
                               "emulated": each.emulated, "needs": each.needs} for each in experiments], indent=1,
                             ensure_ascii=False))
        else:
            printing.print_list(printing.console(), experiments)
        return EXIT_OK
    if options.verb == "compare":
        from penstock.bench import compare

        return compare.run(options.first, options.second, options.json, options.all)
    words = list(arguments)
    if "--command" in words:
        at = words.index("--command")
        del words[at:at + 2]
    return run(options, words)
