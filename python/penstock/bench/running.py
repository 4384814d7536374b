"""Runs experiments one after the other, and saves the results after each."""

from __future__ import annotations

import csv
import dataclasses
import datetime
import errno
import os
import subprocess
import time
from pathlib import Path
from typing import Callable, List, Optional, Sequence

from penstock.bench import machine, model, published
from penstock.bench.budget import Budget, Share
from penstock.bench.experiment import Absent, Experiment, Failed, Run, Settings
from penstock.bench.model import BEFORE, Outcome, Results
from penstock.bench.places import Tools

Progress = Callable[[str, int, int, str], None]  # experiment, rounds done, total, current measurement
Finished = Callable[[str, Outcome], None]


def check_outputs(files: Sequence[Path], folder: Optional[Path]) -> None:
    """Called before anything is measured, so that no figures are lost at the end. OSError names the file that cannot be written. Results
    replace a whole file, so a pipe or a device cannot take them."""
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
        files = [*files, folder / ".penstock-bench"]
    for file in files:
        there = file.exists()
        if there and not file.is_dir() and not file.is_file():
            raise OSError(errno.EINVAL, "it is a pipe or a device, and results replace a file", str(file))
        with open(file, "a", encoding="utf-8"):
            pass
        if not there:
            file.unlink()


def commit_of(folder: Path) -> Optional[str]:
    """The commit of the source tree that contains this code; None in an installation."""
    def git(*words: str) -> Optional[str]:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else None

    try:
        inside = git("ls-files", "--error-unmatch", str(Path(__file__).resolve()))
        commit = git("rev-parse", "--short", "HEAD") if inside else None
        return f"{commit} with local changes" if commit and git("status", "--porcelain", "-uno") else commit
    except OSError:
        return None


def begin(command: str, version: str, settings: Settings) -> Results:
    facts = machine.record()
    started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return Results(version, commit_of(Path(__file__).resolve().parent), command, started, quick=settings.quick,
                   machine=facts, warnings=machine.warnings(facts))


def run_one(experiment: Experiment, settings: Settings, tools: Tools, outcome: Outcome, progress: Progress, share: Share) -> None:
    """Runs one experiment and always fills `outcome`. Only interruptions propagate."""
    begun = time.monotonic()
    name = experiment.name
    run = Run(settings, tools, outcome, lambda done, most, words: progress(name, done, most, words), share)
    try:
        run.timeout()
        experiment.run(run)
        if not outcome.rows and outcome.status == "partial":
            outcome.status = "absent"
        elif not outcome.rows and not outcome.formulas and (settings.metrics or settings.series):
            raise Absent("nothing that it measures has a metric and a series that --metric and --series name")
        elif outcome.rows:
            outcome.rows += [row for row in published.rows(name)
                             if settings.wants_metric(row.metric) and settings.wants_series(row.series)]
            add_before(outcome, name, settings.before)
    except Absent as error:
        _ended(outcome, "absent", str(error))
    except Failed as error:
        _ended(outcome, "failed", str(error))
    except KeyboardInterrupt:
        _ended(outcome, "interrupted", "ended by the user; the rows are of the rounds that were done")
        raise
    except Exception as error:  # a defect in one experiment must not lose the others
        _ended(outcome, "failed", f"{type(error).__name__}: {error}")
    finally:
        outcome.seconds = round(time.monotonic() - begun, 1)


def add_before(outcome: Outcome, name: str, before: Optional[Results]) -> None:
    """Adds the earlier run's figures that this run has too, and its formulas."""
    if before is None:
        return
    earlier = before.experiments.get(name)
    if earlier is None:
        outcome.reason = f"{f'{outcome.reason}; ' if outcome.reason else ''}the run before has no experiment {name}"
        return
    subjects = {(row.series, row.group, row.op, row.metric) for row in outcome.rows if not row.theirs}
    for row in earlier.rows:
        if (row.series, row.group, row.op, row.metric) in subjects and not row.theirs:
            outcome.rows.append(dataclasses.replace(row, series=row.series + BEFORE, baseline=True))
    outcome.formulas += [dataclasses.replace(each, series=each.series + BEFORE) for each in earlier.formulas
                         if (each.series, each.group, each.op, each.metric) in subjects]


def _ended(outcome: Outcome, status: str, reason: str) -> None:
    if outcome.rows and status in ("absent", "failed"):
        status = "partial"
    said = outcome.reason
    outcome.status, outcome.reason = status, f"{said}; {reason}" if said else reason


def run_all(experiments: Sequence[Experiment], settings: Settings, tools: Tools, results: Results, folder: Optional[Path],
            progress: Progress, finished: Finished) -> bool:
    """Runs all experiments; False if interrupted. Updates DIR/results.json and results.csv after each experiment."""
    begun = time.monotonic()
    steal = machine.Steal()
    warned = list(results.warnings)
    budget = Budget(settings.whole(), len(experiments))
    for each in experiments:
        outcome = results.experiments[each.name] = each.outcome()
        try:
            run_one(each, settings, tools, outcome, progress, budget.share())
        except KeyboardInterrupt:
            finished(each.name, outcome)
            return False
        finally:
            results.seconds = round(time.monotonic() - begun, 1)
            results.machine["hypervisor steal"] = f"{steal.share():.2%}"
            results.warnings = warned + steal.warning()
            if folder:
                _try_to_keep(results, folder, warned)
        finished(each.name, outcome)
    return True


def _try_to_keep(results: Results, folder: Path, warned: List[str]) -> None:
    """Saves results. A full disk does not end the run: later experiments are printed, and there may be room at the end."""
    try:
        keep(results, folder)
    except OSError as error:
        words = f"the results could not be kept after an experiment: {folder}: {error.strerror}"
        if words not in warned:
            warned.append(words)


def keep(results: Results, folder: Path) -> None:
    model.write(results, folder / "results.json")
    write_csv(results, folder / "results.csv")


def write_csv(results: Results, path: Path) -> None:
    """Writes a line for each row, beginning with its experiment."""
    names = [each.name for each in dataclasses.fields(model.Row)]
    young = path.with_name(path.name + ".new")
    with open(young, "w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["experiment", *names])
        for experiment, outcome in results.experiments.items():
            for row in outcome.rows:
                lines.writerow([experiment, *(getattr(row, name) for name in names)])
    os.replace(young, path)


def write_report(results: Results, folder: Path) -> List[str]:
    """Writes the page and returns its paths; [] if the report package or its dependencies are absent."""
    try:
        from penstock.bench import report
    except ImportError:
        return []
    return [str(report.write(results.as_dict(), folder))]
