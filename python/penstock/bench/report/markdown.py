"""The pages of docs/results: the same sentences and tables in Markdown, with plots in separate files."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Dict, List, Mapping

from penstock.bench.report import crossover, findings, html, plots, tables, words
from penstock.bench.report.data import Experiment, Report
from penstock.bench.report.tables import Table

INDEX = """# Results

Measurements by `penstock bench`, one page per machine and date, made by `make results`. Each table holds medians of
interleaved rounds with the baselines measured in the same run. Compare within a table, not between pages: two runs are
compared by `penstock bench compare`. [The report](../report.md) says how the sentences are computed.
[Measurements that decided a design](design-measurements.md) are kept apart: they compare with code that is gone.

| date | machine | commit |
|---|---|---|
"""
MOST_TABLES = 12  # per experiment; results.json has the others


def _cell(text: str) -> str:
    """Escapes markup and characters that would end the cell."""
    return re.sub(r"([\\`*_\[\]<>|#&])", r"\\\1", re.sub(r"\s+", " ", text))


def table(of: Table) -> str:
    lines = ["| " + " | ".join(map(_cell, of.columns)) + " |", "|" + "|".join("---:" if each else "---" for each in of.numeric) + "|"]
    lines += ["| " + " | ".join(_cell(cell.text) for cell in row) + " |" for row in of.rows]
    return "\n".join(lines) + (f"\n\n{_cell(of.note)}" if of.note else "")


def _summary(report: Report) -> List[str]:
    lines = ["", "## Summary"]
    for kind, heading in findings.HEADINGS.items():
        items = [f"- {_cell(experiment.title)}: {_cell(each.text)}" for experiment in report.experiments
                 for each in [one for one in findings.of_experiment(experiment) if one.kind == kind][:findings.FEW]]
        lines += ["", f"### {heading}", "", *(items or [findings.LACKING[kind]])]
        if kind == findings.RATIO:
            found = crossover.of_report(report)
            lines += ["", "### Where TCP wins", "", table(tables.of_crossovers(found)) if found else crossover.LACKING]
    for said in (findings.single_rounds(report), findings.oversubscribed(report)):
        lines += ["", said] if said else []
    return lines


def _section(experiment: Experiment, files: Mapping[str, str]) -> List[str]:
    lines = ["", f"## {_cell(experiment.title)}", ""]
    about = " ".join(part for part in (experiment.about, f"({experiment.source})" if experiment.source else "") if part)
    if about:
        lines += [_cell(about), ""]
    if experiment.reason:
        lines += [f"{'Not measured' if not experiment.figures else 'Not whole'}: {_cell(experiment.reason)}", ""]
    if not experiment.figures:
        return lines[:-1]
    if experiment.emulated:
        lines += [f"Emulated here: {_cell(experiment.emulated)}", ""]
    for title, path in files.items():
        lines += [f"![{_cell(title)}]({path})", ""]
    shown = tables.of_experiment(experiment)
    for each in shown[:MOST_TABLES]:
        lines += [f"### {_cell(each.title)}", "", table(each), ""]
    if len(shown) > MOST_TABLES:
        lines += [f"{words.count(len(shown) - MOST_TABLES, 'table')} more in the report that `penstock bench run --report` writes.", ""]
    return lines[:-1]


def page(report: Report, files: Mapping[str, Mapping[str, str]]) -> str:
    """The page. `files`: the plots of each experiment, title -> path for links."""
    facts = [(name, value) for name, value in tables.environment(report) if name != "penstock"]
    lines = [f"# {_cell(report.started[:10])}, {_cell(report.machine_name)}", "", "| | |", "|---|---|",
             f"| penstock | {_cell(report.penstock)} |", f"| commit | {_cell(report.commit)} |",
             *(f"| {_cell(name)} | {f'`{value}`' if name == 'command' and '`' not in value and '|' not in value else _cell(value)} |"
               for name, value in facts)]
    if report.warnings:
        lines += ["", "These spoil figures on this machine:", "", *(f"- {_cell(each)}" for each in report.warnings)]
    lines += _summary(report)
    lines += ["", "## Experiments", "", table(tables.of_run(report))]
    for experiment in report.experiments:
        lines += _section(experiment, files.get(experiment.name, {}))
    return "\n".join(lines) + "\n"


def _slug(report: Report) -> str:
    name = re.sub(r"[^a-z0-9]+", "-", f"{report.started[:10]} {report.machine_name}".lower().replace("(r)", "")).strip("-")
    return name[:80].rstrip("-")


def keep(report: Report, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    slug = _slug(report)
    drawings = folder / slug
    shutil.rmtree(drawings, ignore_errors=True)
    files: Dict[str, Dict[str, str]] = {}
    styles = plots.Styles(report)
    for experiment in report.experiments:
        for number, drawn in enumerate(html.drawn_of(experiment, styles, page=False)):
            drawings.mkdir(exist_ok=True)
            name = f"{experiment.id}-{number}.svg"
            (drawings / name).write_text(drawn.svg + "\n", encoding="utf-8")
            files.setdefault(experiment.name, {})[drawn.plot.title] = f"{slug}/{name}"
    path = folder / f"{slug}.md"
    path.write_text(page(report, files), encoding="utf-8")
    index(folder)
    return path


def index(folder: Path) -> None:
    """Writes the list of all pages in the folder, newest first, including pages of older versions."""
    rows = []
    for each in sorted(folder.glob("20*.md"), reverse=True):
        text = each.read_text(encoding="utf-8")
        head = re.match(r"# (\S+), (.*)\n", text)
        commit = re.search(r"^\| commit \| (.*) \|$", text, re.MULTILINE)
        if head:
            rows.append(f"| [{head[1]}]({each.name}) | {head[2]} | {commit[1] if commit else words.NONE} |\n")
    (folder / "README.md").write_text(INDEX + "".join(rows), encoding="utf-8")
