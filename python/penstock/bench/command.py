"""The command line of `penstock bench run`, `list` and `compare`."""

from __future__ import annotations

import argparse
import difflib
import json
import math
import os
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, NoReturn, Optional, Sequence, Tuple

from penstock.bench import model, running, sizes
from penstock.bench.experiment import Experiment, Settings, registry
from penstock.bench.model import Outcome, Results
from penstock.bench.places import Tools

if TYPE_CHECKING:
    from rich.console import Console

EXIT_OK, EXIT_ERROR, EXIT_USAGE, EXIT_INTERRUPTED = 0, 1, 2, 130
MOST_SECONDS = 1_000_000
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
    if not words or not all(word.strip().isdecimal() and 1 <= int(word) <= 4096 for word in words):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of numbers of processes: give numbers from 1 to 4096, such as "
                                         "2,4,8")
    return tuple(dict.fromkeys(map(int, words)))


def mode_list(text: str) -> Tuple[str, ...]:
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",")))
    for word in words:
        if word not in MODES:
            raise argparse.ArgumentTypeError(f"'{word}' is no mode to measure: give {', '.join(MODES)}")
    return words


def text_list(text: str) -> Tuple[str, ...]:
    words = tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))
    if not words:
        raise argparse.ArgumentTypeError(f"'{text}' holds no text: give beginnings of names, such as TCP,Penstock")
    return words


def metric_list(text: str) -> Tuple[str, ...]:
    words = text_list(text)
    for word in words:
        if word not in model.METRICS:
            near = difflib.get_close_matches(word, model.METRICS, 1, 0.5)
            raise argparse.ArgumentTypeError(f"there is no metric '{word}'" + (f"; did you mean '{near[0]}'?" if near else "")
                                             + f": give some of {', '.join(model.METRICS)}")
    return words


def natural(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 1_000_000:
        raise argparse.ArgumentTypeError(f"'{text}' is no number from 1 to 1000000")
    return int(text)


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number <= MOST_SECONDS:
        raise argparse.ArgumentTypeError(f"'{text}' is no number of seconds: give one above 0, up to {MOST_SECONDS}, such as 30")
    return number


KINDS: Dict[str, Callable[[str], Any]] = {"experiment": str, "text": str, "path": Path, "sizes": size_list, "counts": count_list,
                                          "modes": mode_list, "metrics": metric_list, "texts": text_list,
                                          "natural": natural, "seconds": seconds}


def not_empty(kind: Callable[[str], Any]) -> Callable[[str], Any]:
    def value(text: str) -> Any:
        if not text:
            raise argparse.ArgumentTypeError("is empty: give a value, or leave it out")
        return kind(text)

    return value


def parser() -> argparse.ArgumentParser:
    """The parser made from options.json, the source of the command's help, man pages and completion too."""
    top = Parser(prog="penstock bench", description="Measure this machine: every table and figure of the papers that it "
                 "allows, with baselines in the same run.")
    top.add_argument("--command", type=Path, help=argparse.SUPPRESS)  # the command that started this
    verbs = top.add_subparsers(dest="verb", required=True, parser_class=Parser)
    for verb, its in json.loads(Path(__file__).with_name("options.json").read_text(encoding="utf-8")).items():
        below = verbs.add_parser(verb, help=its["meaning"], description=its["meaning"], epilog=its.get("footer"), allow_abbrev=False)
        for option in its["options"]:
            _add(below, option)
    return top


def _add(parser: argparse.ArgumentParser, option: Mapping[str, Any]) -> None:
    name = option["names"][0]
    if "kind" not in option:
        parser.add_argument(*option["names"], action="store_true", help=option["meaning"])
    elif name.startswith("-"):
        parser.add_argument(*option["names"], type=not_empty(KINDS[option["kind"]]), metavar=option["value"], help=option["meaning"],
                            default=option.get("default"))
    else:
        parser.add_argument(name, nargs=option.get("count"), type=not_empty(KINDS[option["kind"]]), help=option["meaning"])


def chosen(names: Sequence[str]) -> "Tuple[List[Experiment], List[str]]":
    """The experiments with these names, or all without names; and messages about unknown names."""
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
    try:
        from penstock.bench import printing
    except ImportError as error:
        if error.name != "rich":
            raise
        complain(f"the Python package rich is absent, which draws tables and progress: {sys.executable} -m pip install rich, or "
                 "apt install python3-rich")
        return EXIT_ERROR
    console = printing.console()
    wanted, complaints = chosen(options.EXPERIMENT)
    if complaints:
        for each in complaints:
            complain(each)
        return EXIT_USAGE
    if options.osu and not os.path.isdir(options.osu):
        complain(f"--osu: {options.osu} is no folder: name the one that holds osu_latency, or IMB-MPI1")
        return EXIT_ERROR
    if options.stream and not os.access(options.stream, os.X_OK):
        complain(f"--stream: {options.stream} is no program: build STREAM as published (gcc -O3 -fopenmp stream.c), and name what came out")
        return EXIT_ERROR
    try:
        running.check_outputs([path for path in (options.json, options.csv) if path], options.report)
    except OSError as error:
        complain(f"cannot write {error.filename}: {error.strerror}: name another; nothing was measured")
        return EXIT_ERROR
    try:
        before = model.read(options.before) if options.before else None
    except model.ModelError as error:
        complain(str(error))
        return EXIT_ERROR
    settings = Settings(options.sizes, options.procs, options.repeat, options.quick, options.mode, options.timeout,
                        options.limit, options.budget, options.osu, options.stream, options.peer, options.pool, before,
                        options.metric, options.series)
    command = command_of(options)
    results = running.begin(shlex.join(["penstock", "bench", *words]), version_of(command), settings)
    printing.print_machine(console, results.machine, results.warnings)
    whole = measure(console, wanted, settings, Tools(command, options.mpiexec), results, options.report)
    written = leave(results, options)
    asked = [path for path in (options.json, options.csv, options.report and options.report / "results.json") if path]
    lost = [path for path in asked if str(path) not in written]
    for path in written:
        console.print(f"written: {path}", markup=False)
    failed = [name for name, outcome in results.experiments.items() if outcome.status == "failed"]
    if not whole:
        complain("interrupted; what was measured is kept" if written else "interrupted")
        return EXIT_INTERRUPTED
    return EXIT_ERROR if failed or lost else EXIT_OK


def measure(console: "Console", wanted: Sequence[Experiment], settings: Settings, tools: Tools, results: Results,
            folder: Optional[Path]) -> bool:
    from penstock.bench import printing

    for each in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, lambda *_: signal.raise_signal(signal.SIGINT))
    show, stop = printing.progress_line(console)

    def finished(name: str, outcome: Outcome) -> None:
        printing.print_outcome(console, name, outcome)

    with tools:
        try:
            return running.run_all(wanted, settings, tools, results, folder, show, finished)
        finally:
            stop()


def leave(results: Results, options: argparse.Namespace) -> List[str]:
    """Writes the files that were asked for, and returns their paths."""
    written = []
    for path, write in ((options.json, model.write), (options.csv, running.write_csv)):
        if path:
            try:
                write(results, path)
                written.append(str(path))
            except OSError as error:
                complain(f"cannot write {path}: {error.strerror}")
    if options.report:
        try:
            running.keep(results, options.report)
            written += [str(options.report / "results.json"), str(options.report / "results.csv")]
        except OSError as error:
            complain(f"cannot write into {options.report}: {error.strerror}: make room, and name a folder by --report DIR")
        try:
            written += running.write_report(results, options.report)
        except Exception as error:  # a failure of the page must not lose the figures
            complain(f"no page was drawn: {type(error).__name__}: {error}")
    return written


def print_list(experiments: "Iterable[Experiment]") -> None:
    """Prints the experiments, without the package rich, which only measuring needs."""
    rows = [("experiment", "what it measures", "source", "needs")]
    rows += [(each.name, each.title, each.source, each.needs) for each in experiments]
    widths = [max(map(len, column)) for column in zip(*rows)]
    for row in rows:
        print("  ".join(word.ljust(width) for word, width in zip(row, widths)).rstrip())


def main(arguments: Sequence[str]) -> int:
    options = parser().parse_args(arguments)
    if options.verb == "list":
        experiments = registry().values()
        if options.json:
            print(json.dumps([{"name": each.name, "title": each.title, "about": each.about, "source": each.source,
                               "emulated": each.emulated, "needs": each.needs} for each in experiments], indent=1,
                             ensure_ascii=False))
        else:
            print_list(experiments)
        return EXIT_OK
    if options.verb == "compare":
        from penstock.bench import compare

        first, second = (getattr(options, name) for name in ("A.json", "B.json"))
        return compare.run(first, second, options.json, options.all)
    words = list(arguments)
    if "--command" in words:
        at = words.index("--command")
        del words[at:at + 2]
    return run(options, words)
