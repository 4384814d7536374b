"""The page: one HTML file that contains its styles, script and plots, and loads nothing."""

from __future__ import annotations

import re
from html import escape
from typing import Iterable, List, Sequence, Tuple

from penstock.bench import published
from penstock.bench.report import crossover, findings, plots, tables, words
from penstock.bench.report.data import Experiment, Report
from penstock.bench.report.looks import SCRIPT, STYLE
from penstock.bench.report.tables import Cell, Table

MARKS = {
    published.TEXT: "Hollow, violet: published in the paper's text, not measured here.",
    published.DATA: "Hollow, violet, dotted: the authors' public data, not measured here.",
    "model": "Shaded: a model, serialized accesses × the published latency of one.",
}
OPEN_TABLES = 2
MANY_COLUMNS = 9  # from here on a table needs smaller letters on paper


def told(text: str) -> str:
    """A sentence as HTML, with its ratios emphasized."""
    text = text[:1].upper() + text[1:]
    return re.sub(r"(?<![\w.])(\d[\d.,–]*×|\d+(?: to \d+)? %)", r"<strong>\1</strong>", escape(text))


def anchor(experiment: Experiment) -> str:
    """The id of the experiment's section."""
    return f"x-{experiment.id}"


def _cell(cell: Cell, numeric: bool) -> str:
    kinds = " ".join(part for part in (cell.kind, "n" if numeric else "w" if len(cell.text) > 40 else "") if part)
    sort = "" if cell.sort is None else f' data-v="{cell.sort:.6g}"'
    return f"<td{f' class={chr(34)}{kinds}{chr(34)}' if kinds else ''}{sort}>{escape(cell.text)}</td>"


def table(of: Table) -> str:
    head = "".join(f'<th scope="col"{" class=" + chr(34) + "n" + chr(34) if numeric else ""}>'
                   f'{f"<button type={chr(34)}button{chr(34)}>{escape(title)}</button>" if title else ""}</th>'
                   for title, numeric in zip(of.columns, of.numeric))
    body = "\n".join("<tr>" + "".join(map(_cell, row, of.numeric)) + "</tr>" for row in of.rows)
    note = f'<p class="note">{escape(of.note)}</p>' if of.note else ""
    wide = ' class="wide"' if len(of.columns) > MANY_COLUMNS else ""
    return (f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(of.title)}"><table{wide}><thead><tr>{head}</tr></thead>'
            f"<tbody>\n{body}\n</tbody></table></div>{note}")


def _folded(of: Table, open_: bool = False, bulk: bool = False) -> str:
    """A folded table. `bulk`: it stays folded on paper."""
    return (f'<details{" class=" + chr(34) + "bulk" + chr(34) if bulk else ""}{" open" if open_ else ""}><summary>{escape(of.title)} '
            f"<small>{words.count(len(of.rows), 'line')}</small></summary>{table(of)}</details>")


def _list(items: Iterable[str]) -> str:
    return "<ul>" + "".join(f"<li>{each}</li>" for each in items) + "</ul>"


def _tiles(report: Report) -> str:
    found = findings.highlights(report)
    if not found:
        return ""
    return '<div class="tiles">' + "".join(f'<div class="tile"><b>{escape(each.value)}</b>{escape(each.words)}<span>{escape(each.where)}</span></div>'
                                           for each in found) + "</div>"


def summary(report: Report) -> str:
    """The findings by kind. If an experiment has many, only the first are here; its section has the others."""
    single = findings.single_rounds(report)
    parts = [_tiles(report), f'<p class="warnings">{escape(single)}</p>' if single else ""]
    for kind, heading in findings.HEADINGS.items():
        items = []
        for experiment in report.experiments:
            own = [told(each.text) for each in findings.of_experiment(experiment) if each.kind == kind]
            if own:
                link = f'<a href="#{anchor(experiment)}">{escape(experiment.title)}</a>'
                more = len(own) - findings.FEW
                items.append(link + (f' <span class="soft">({more} more there)</span>' if more > 0 else "") + _list(own[:findings.FEW]))
        parts.append(f"<h3>{escape(heading)}</h3>" + ('<div class="findings">' + _list(items) + "</div>" if items else
                                                      f'<p class="soft">{escape(findings.LACKING[kind])}</p>'))
        if kind == findings.RATIO:
            parts.append(_crossovers(report))
    over = findings.oversubscribed(report)
    parts += [f'<p class="soft">{escape(over)}</p>'] if over else []
    return "\n".join(part for part in parts if part)


def _crossovers(report: Report) -> str:
    found = crossover.of_report(report)
    if not found:
        return f'<h3>Where TCP wins</h3><p class="soft">{escape(crossover.LACKING)}</p>'
    return f'<h3>Where TCP wins</h3><div class="tall">{table(tables.of_crossovers(found))}</div>'


def environment(report: Report) -> str:
    facts = "".join(f"<dt>{escape(name)}</dt><dd>{f'<code>{escape(value)}</code>' if name == 'command' else escape(value)}</dd>"
                    for name, value in tables.environment(report))
    warned = ""
    if report.warnings:
        warned = ('<div class="warnings" role="note"><b>These spoil figures on this machine</b>' +
                  _list(escape(each) for each in report.warnings) + "</div>")
    return f"{warned}<dl>{facts}</dl>"


def _figure(drawn: plots.Drawn) -> str:
    said = [MARKS[mark] for mark in drawn.marks if mark in MARKS] + ([drawn.left_out] if drawn.left_out else [])
    return f"<figure><h3>{escape(drawn.plot.title)}</h3>{drawn.svg}<figcaption>{escape(' '.join(said))}</figcaption></figure>"


def drawn_of(experiment: Experiment, styles: plots.Styles, page: bool = True) -> List[plots.Drawn]:
    """The experiment's plots that have points. Empty without matplotlib."""
    if not plots.available():
        return []
    found = []
    for number, plot in enumerate(experiment.plots):
        drawn = plots.draw(experiment, plot, styles, f"{anchor(experiment)}-{number}", page)
        if drawn:
            found.append(drawn)
    return found


def section(experiment: Experiment, styles: plots.Styles) -> str:
    tag = f'<span class="tag {escape(re.sub("[^a-z]", "", experiment.status))}">{escape(experiment.status)}</span>'
    parts = [f'<section id="{anchor(experiment)}"><h2>{escape(experiment.title)}{tag}</h2>']
    if experiment.source:
        parts.append(f'<p class="source">{escape(experiment.source)}</p>')
    if experiment.about:
        parts.append(f"<p>{escape(experiment.about)}</p>")
    if experiment.reason:
        parts.append(f'<p><b>{"Not measured" if not experiment.figures else "Not whole"}:</b> {escape(experiment.reason)}</p>')
    if experiment.figures:
        if experiment.emulated:
            parts.append(f'<p class="emulated"><b>Emulated here:</b> {escape(experiment.emulated)}</p>')
        parts += _measured(experiment, styles)
    paper = tables.of_paper(experiment)
    if paper:
        parts.append(_folded(paper))
    return "\n".join([*parts, "</section>"])


def _measured(experiment: Experiment, styles: plots.Styles) -> List[str]:
    parts = []
    own = findings.of_experiment(experiment)
    if own:
        items = [told(each.text) for each in own]
        rest = _list(items[6:])
        parts.append(_list(items[:6]) + (f"<details><summary>{words.count(len(items) - 6, 'more finding')}</summary>{rest}</details>"
                                         if len(items) > 6 else ""))
    drawn = drawn_of(experiment, styles)
    if drawn:
        parts.append('<div class="plots">' + "".join(map(_figure, drawn)) + "</div>")
    elif experiment.plots and not plots.available():
        parts.append(f'<p class="soft">{escape(plots.HINT)}</p>')
    shown = tables.of_experiment(experiment)
    parts += [_folded(each, open_=len(shown) <= OPEN_TABLES) for each in shown]
    parts.append(_folded(tables.in_full(experiment), bulk=True))
    return parts


def _title(report: Report) -> Tuple[str, str]:
    return "Penstock: measurements", f"{report.machine_name} · {report.started[:10]} · Penstock {report.penstock}"


def _navigation(report: Report) -> str:
    items: Sequence[Tuple[str, str]] = [("summary", "Summary"), ("environment", "Environment"), ("experiments", "Experiments"),
                                        *((anchor(each), each.title) for each in report.experiments), ("reading", "How to read this")]
    return ('<nav aria-label="contents">' + _list(f'<a href="#{name}">{escape(title)}</a>' for name, title in items) + "</nav>")


READING = (
    "Figures are medians of interleaved rounds: all variants in turn, round after round, so that what disturbs the machine "
    "disturbs all alike. Compare within this page, never between the pages of two runs; for that: penstock bench compare.",
    "A ratio is set in colour where the two medians differ by more than both spreads together.",
    f"“On real CXL” is a model, not a measurement: accesses that follow one another × {published.ACCESS_US[0]} µs (a load) to "
    f"{published.ACCESS_US[1]} µs (a store with its write-back), {published.ACCESS_SOURCE}. It leaves out what the processor does "
    "between them and how long the payload takes.",
    "Published points are drawn only where the paper's text gives a number or its authors give their data; none is read off a figure.",
    "MB = 10^6 bytes in bandwidths; sizes of messages are powers of two.",
)


def page(report: Report) -> str:
    """The whole HTML file."""
    styles = plots.Styles(report)
    title, subtitle = _title(report)
    sections = "\n".join(section(each, styles) for each in report.experiments)
    run = table(tables.of_run(report)) if report.experiments else '<p class="soft">This run holds no experiment.</p>'
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>
{STYLE}</style>
</head>
<body>
<a class="skip" href="#summary">to the summary</a>
<div class="frame">
<header><h1>{escape(title)}</h1><p class="soft">{escape(subtitle)}</p></header>
{_navigation(report)}
<main>
<section id="summary"><h2>Summary</h2>
{summary(report)}
</section>
<section id="environment"><h2>Environment</h2>
{environment(report)}
</section>
<section id="experiments"><h2>Experiments</h2>
{run}
</section>
{sections}
<footer id="reading"><h2>How to read this</h2>{_list(map(escape, READING))}</footer>
</main>
</div>
<script>
{SCRIPT}</script>
</body>
</html>
"""
