"""The plots of the report: SVG by matplotlib, with text as text.

Colours are CSS variables of the page (`PAGE`), or fixed (`FILE`) for a separate file. Colour is never the only
distinction: each series has a marker, published points are hollow, limits are dashed.
"""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple
from xml.sax.saxutils import escape

from penstock.bench import published
from penstock.bench.report import words
from penstock.bench.report.data import TIMES, WALL_CLOCK, Experiment, Figure, Line, Report, metric_words

# Okabe and Ito's colours, which all kinds of colour vision distinguish; the first is ours.
LIGHT = ("#0072b2", "#d55e00", "#008f68", "#a8528a", "#8a6d00", "#2a8fc4", "#5c5c5c", "#b03a48")
DARK = ("#56b4e9", "#ff8a4c", "#3fd0a4", "#e39bc8", "#e6c229", "#9fd5f5", "#b8b8b8", "#ff97a3")
MARKERS = "osD^vPX*"
INK, GRID, PUBLISHED, SERIES = "#010001", "#010002", "#010003", "#0101{:02d}"
WIDTH, PLOT_HEIGHT, LEGEND_LINE = 4.3, 2.6, 0.152  # inches
MOST_SERIES = 16
PREFERRED = ("penstock, software", "penstock software")
HINT = "matplotlib is absent, so nothing is drawn: pip install matplotlib, or ci/install.sh run"


class Styles:
    """A colour and a marker for each series; the same in all plots of a report as far as possible."""

    def __init__(self, report: Report) -> None:
        counts: Dict[str, int] = {}
        for experiment in report.experiments:
            for figure in experiment.figures:
                if not figure.theirs:
                    counts[figure.series] = counts.get(figure.series, 0) + 1
        ordered = sorted(counts, key=lambda name: (name.lower() not in PREFERRED, -counts[name]))
        self._of = {name: index for index, name in enumerate(ordered)}

    def of(self, names: Sequence[str]) -> "Dict[str, Tuple[str, str]]":
        """(colour, marker) of each series in one plot; distinct while there are enough."""
        taken: Dict[int, str] = {}
        for name in sorted(names, key=lambda each: self._of.get(each, len(self._of))):
            wanted = self._of.get(name, len(self._of))
            free = [place for place in range(wanted, wanted + len(LIGHT)) if place % len(LIGHT) not in taken]
            taken[free[0] % len(LIGHT) if free else len(LIGHT) + len(taken)] = name
        return {name: (SERIES.format(place % len(LIGHT)), MARKERS[(place + place // len(LIGHT)) % len(MARKERS)])
                for place, name in taken.items()}


@dataclass(frozen=True)
class Drawn:
    """`left_out`: why points are missing, or ""; `marks`: the kinds of points in it that were not measured here."""

    plot: Line
    svg: str
    words: str
    left_out: str
    marks: Tuple[str, ...]


@dataclass
class Curve:
    """The data of one legend entry: points, and constant levels over a range of x."""

    name: str
    points: List[Tuple[float, float]]
    levels: List[Tuple[float, float, float]]
    figures: List[Figure]


def available() -> bool:
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def _selected(experiment: Experiment, plot: Line) -> List[Figure]:
    def fits(figure: Figure) -> bool:
        for name, wanted in plot.where.items():
            value = getattr(figure, str(name), None)
            if value not in wanted if isinstance(wanted, (list, tuple)) else value != wanted:
                return False
        return True

    return [each for each in experiment.figures if fits(each)]


def _value(figure: Figure, name: str) -> Optional[float]:
    """The figure's value; None also if no axis can show it."""
    found = words.finite(getattr(figure, name, None))
    return None if found is None or abs(found) > 1e20 else found


def _curves(plot: Line, figures: Sequence[Figure]) -> List[Curve]:
    curves: Dict[str, Curve] = {}
    for each in figures:
        x, y = _value(each, plot.x), _value(each, plot.y)
        if x is None or y is None or (plot.logy and y <= 0) or (plot.logx and x <= 0):
            continue
        split = getattr(each, plot.split, each.series)
        name = each.series if plot.split == "series" else f"{split} {plot.split}" if isinstance(split, int) else str(split)
        curve = curves.setdefault(name, Curve(name, [], [], []))
        curve.points.append((x, y))
        curve.figures.append(each)
    return sorted(curves.values(), key=lambda curve: (not curve.figures[0].ours, curve.figures[0].limit))


def _references(experiment: Experiment, plot: Line, figures: Sequence[Figure]) -> List[Curve]:
    """The published points of the plot's operation, if it shows only one."""
    subjects = {(each.op, each.metric, each.group) for each in figures if not each.theirs}
    if not subjects or any(each.theirs for each in figures):
        return []
    curves: Dict[str, Curve] = {}
    for point in published.points():
        fits = [subject for subject in subjects if point.experiment == experiment.name and point.fits(*subject)]
        if len(fits) != len(subjects):
            continue
        if point.kind == published.DATA and all(published.class_of(group) is None for _, _, group in subjects):
            if "CXL" not in point.series or point.group not in ("1b", "2a"):
                continue  # the plot has no class: show the curves of the device only
        kind = "data" if point.kind == published.DATA else "text"
        ranks = f", {point.procs} processes" if point.procs and plot.x == "bytes" else ""
        name = f"{point.series}{ranks} ({point.source}, {kind})"
        curve = curves.setdefault(name, Curve(name, [], [], []))
        if plot.x == "procs" and point.procs:
            curve.points.append((point.procs, point.value))
        elif plot.x == "bytes" and point.low and point.high:
            if point.low == point.high:
                curve.points.append((point.low, point.value))
            else:
                curve.levels.append((point.low, point.high, point.value))
    return [each for each in curves.values() if each.points or each.levels]


def _axes(lines: int, height: float = PLOT_HEIGHT) -> Tuple[Any, Any]:
    from matplotlib.figure import Figure as Canvas

    below = 0.45 + LEGEND_LINE * lines + (0.08 if lines else 0)
    canvas = Canvas(figsize=(WIDTH, height + below))
    axes = canvas.add_axes((0.68 / WIDTH, below / (height + below), (WIDTH - 0.78) / WIDTH, (height - 0.15) / (height + below)))
    canvas.patch.set_alpha(0)
    axes.patch.set_alpha(0)
    axes.minorticks_off()
    axes.grid(True, color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return canvas, axes


def _scale_x(axes: Any, plot: Line, values: Sequence[float]) -> None:
    from matplotlib.ticker import FixedLocator, NullLocator

    if plot.logx:
        axes.set_xscale("log", base=2)
    shown = sorted(set(values))
    step = -(-len(shown) // 7)
    ticks = shown[::step] if plot.logx or plot.x == "procs" else shown[:: max(step, 1)]
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks, [words.size(int(each)) if plot.x == "bytes" else words.number(each) if each != int(each) else f"{int(each):,}"
                            for each in ticks])
    axes.set_xlabel({"bytes": "size of a message", "procs": "processes or threads"}.get(plot.x, plot.x), color=INK)


def _tick(value: float, _: int) -> str:
    return f"{value:,.10g}" if 1e-4 <= abs(value) < 1e7 or not value else f"{value:.0e}"


def _scale_y(axes: Any, plot: Line, unit: str) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    if plot.logy:
        axes.set_yscale("log")
        low, high = axes.get_ylim()
        if high / low < 100:
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(_tick))
    axes.set_ylabel(words.short(unit, 44), color=INK)


def _draw_curve(axes: Any, curve: Curve, style: Tuple[str, str]) -> None:
    first = curve.figures[0]
    points = sorted(curve.points)
    look: Dict[str, Any] = {"color": style[0], "marker": style[1], "markersize": 4,
                            "linewidth": 2.0 if first.ours else 1.3, "linestyle": "--" if first.limit or first.theirs else "-"}
    if first.theirs:
        look["markerfacecolor"] = "none"
    axes.plot([x for x, _ in points], [y for _, y in points], label=words.short(curve.name, 64), **look)


def _draw_reference(axes: Any, curve: Curve, number: int, least: float) -> None:
    """Draws published points. `least`: the smallest measured x, where levels begin."""
    marker = MARKERS[number % len(MARKERS)]
    look: Dict[str, Any] = {"color": PUBLISHED, "linestyle": (0, (1, 2 + number % 3)), "linewidth": 1.3, "marker": marker,
                            "markersize": 5, "markerfacecolor": "none"}
    label: Optional[str] = words.short(curve.name, 72)
    for low, high, value in curve.levels:
        axes.plot([max(low, min(least, high)), high], [value, value], label=label, **look)
        label = None
    if curve.points:
        points = sorted(curve.points)
        if not curve.name.endswith("data)"):
            look["linestyle"] = "none"  # values between two points are unknown
        axes.plot([x for x, _ in points], [y for _, y in points], label=label, **look)


def _draw_model(axes: Any, plot: Line, figures: Sequence[Figure], styles: Mapping[str, Tuple[str, str]]) -> bool:
    """Draws a band: serialized accesses of our first series that has them x the published latencies."""
    counted = [each for each in figures if each.ours and each.real_us and _value(each, plot.x)]
    if not counted or plot.x != "bytes" or plot.y != "median":
        return False
    name = counted[0].series
    band = sorted((each.bytes or 0, *(each.real_us or (0.0, 0.0))) for each in counted if each.series == name)
    if any(low <= 0 for _, low, _ in band) or len({size for size, _, _ in band}) < len(band):
        return False
    low_us, high_us = published.ACCESS_US
    axes.fill_between([size for size, _, _ in band], [low for _, low, _ in band], [high for _, _, high in band],
                      color=styles.get(name, (INK, ""))[0], alpha=0.16, linewidth=0,
                      label=words.short(f"model: accesses of {name}", 44) + f" × {low_us} to {high_us} µs")
    return True


def _dots(plot: Line, figures: Sequence[Figure], styles: Styles) -> Tuple[Any, List[Tuple[str, float]]]:
    """For x = "series": a dot for each series, with its name above and its value beside it."""
    shown = [each for each in figures if _value(each, plot.y) is not None and (not plot.logy or (_value(each, plot.y) or 0) > 0)][:24]
    values = [(each.series, _value(each, plot.y) or 0.0) for each in shown]
    canvas, axes = _axes(0, 0.45 + 0.34 * max(len(shown), 1))
    if plot.logy:
        axes.set_xscale("log")
        axes.margins(x=0.18)
    else:
        axes.set_xlim(0, max((value for _, value in values), default=1) * 1.25 or 1)
    look = styles.of([each.series for each in shown if not each.theirs])
    for place, (each, (name, value)) in enumerate(zip(shown, values)):
        colour, marker = (PUBLISHED, "o") if each.theirs else look[name]
        axes.plot([value], [-place], marker=marker, color=colour, markerfacecolor="none" if each.theirs else colour, markersize=6,
                  linestyle="none")
        axes.annotate(words.short(name + (" (published)" if each.theirs else ""), 60), (0, -place), xycoords=("axes fraction", "data"),
                      xytext=(-44, 5), textcoords="offset points", fontsize=8, color=INK, annotation_clip=False)
        axes.annotate(words.number(value), (value, -place), xytext=(7, -3), textcoords="offset points", fontsize=8, color=INK)
    axes.set_ylim(-len(shown) + 0.4, 0.75)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_xlabel(words.short(metric_words(plot.unit or plot.y), 60), color=INK)
    from matplotlib.ticker import FuncFormatter, NullLocator

    if plot.logy:
        axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(_tick))
    return canvas, values


def _lines(experiment: Experiment, plot: Line, figures: Sequence[Figure], curves: List[Curve], styles: Styles) -> Tuple[Any, Tuple[str, ...]]:
    references = _references(experiment, plot, figures)
    modelled = any(each.ours and each.real_us for each in figures)
    narrow = all(len(each.name) <= 30 for each in curves) and not references and not modelled
    entries = min(len(curves), MOST_SERIES) + len(references) + (1 if modelled else 0)
    canvas, axes = _axes(-(-entries // 2) if narrow else entries)
    look = styles.of([each.name for each in curves[:MOST_SERIES]])
    inside = [x for curve in curves for x, _ in curve.points]
    marks = []
    if modelled and _draw_model(axes, plot, figures, look):
        marks.append("model")
    for number, curve in enumerate(references):
        _draw_reference(axes, curve, number, min(inside))
    for curve in curves[:MOST_SERIES]:
        _draw_curve(axes, curve, look[curve.name])
    if any("data)" in each.name for each in references):
        marks.append(published.DATA)
    if any("text)" in each.name for each in references):
        marks.append(published.TEXT)
    reach = [x for curve in references for x, _ in curve.points] + [high for each in references for _, high, _ in each.levels]
    _scale_x(axes, plot, inside + (reach if plot.x == "procs" else []))
    _scale_y(axes, plot, metric_words(plot.unit or figures[0].metric))
    handles, labels = axes.get_legend_handles_labels()
    ours_first = sorted(zip(handles, labels), key=lambda pair: ("(" in pair[1], pair[1].startswith("model")))
    canvas.legend([handle for handle, _ in ours_first], [label for _, label in ours_first], loc="lower left",
                  bbox_to_anchor=(0.0, 0.0), ncols=2 if narrow else 1, frameon=False, fontsize=7.5, columnspacing=1.0, labelcolor=INK, handlelength=2.6, labelspacing=0.25)
    return canvas, tuple(marks)


def _described(plot: Line, curves: Sequence[Tuple[str, Sequence[float]]]) -> str:
    """A text description of the plot, for screen readers."""
    parts = [f"{name} from {words.number(min(values))} to {words.number(max(values))}" for name, values in curves if values]
    return f"{metric_words(plot.unit or plot.y)} over {plot.x}: " + "; ".join(parts) + "." if parts else "no points"


def draw(experiment: Experiment, plot: Line, styles: Styles, prefix: str, page: bool = True) -> Optional[Drawn]:
    """Draws the plot; None if it has no points. `prefix`: for ids in the SVG; `page`: use the page's colours."""
    import matplotlib

    chosen = _selected(experiment, plot)
    figures = [each for each in chosen if each.comparable or plot.y not in ("median", "p50", "p99", "min", "max")]
    left_out = "" if len(figures) == len(chosen) else (
        f"{words.count(len(chosen) - len(figures), 'point')} of more ranks than cores left out: such times show the scheduler.")
    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": "penstock", "font.size": 8, "font.family": "sans-serif",
                "text.color": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.linewidth": 0.8,
                "font.sans-serif": ["DejaVu Sans"], "text.parse_math": False}
    marks: Tuple[str, ...] = ()
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # characters that its font lacks: the browser has other fonts
        if plot.x == "series":
            if not any(_value(each, plot.y) is not None for each in figures):
                return None
            canvas, values = _dots(plot, figures, styles)
            said = _described(plot, [(name, [value]) for name, value in values])
            marks = (published.TEXT,) if any(each.theirs for each in figures) else ()
        else:
            curves = _curves(plot, figures)
            if not curves:
                return None
            canvas, marks = _lines(experiment, plot, figures, curves, styles)
            said = _described(plot, [(each.name, [y for _, y in each.points]) for each in curves])
        written = io.StringIO()
        canvas.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return Drawn(plot, _tidy(written.getvalue(), prefix, plot.title, said, page), said, left_out, marks)


def _short_numbers(attribute: "re.Match[str]") -> str:
    return re.sub(r"-?\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}".rstrip("0").rstrip("."), attribute[0])


def _tidy(svg: str, prefix: str, title: str, said: str, page: bool) -> str:
    """Cleans an SVG: unique ids, short numbers, a title and a description, and the requested colours."""
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r'\bid="([^"]+)"', rf'id="{prefix}-\1"', svg)
    svg = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", svg)
    svg = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{prefix}-\1"', svg)
    svg = svg.replace(' xmlns:xlink="http://www.w3.org/1999/xlink"', "")
    svg = re.sub(r'(?<=\s)(?:d|x|y|transform|width|height)="[^"]*"', _short_numbers, svg)
    svg = re.sub(r'<svg [^>]*?viewBox="([^"]+)"[^>]*>', lambda found: (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{found[1]}" role="img" aria-labelledby="{prefix}-t {prefix}-d">'
        f'<title id="{prefix}-t">{escape(title)}</title><desc id="{prefix}-d">{escape(said)}</desc>'), svg, count=1)
    svg = re.sub(r">\s+<", "><", svg).strip()
    colours = {INK: "var(--ink)", GRID: "var(--grid)", PUBLISHED: "var(--published)"} if page else {
        INK: "#222222", GRID: "#dddddd", PUBLISHED: "#777777"}
    for index, fixed in enumerate(LIGHT):
        colours[SERIES.format(index)] = f"var(--s{index})" if page else fixed
    for sentinel, colour in colours.items():
        svg = svg.replace(sentinel, colour)
    if not page:
        svg = re.sub(r"(</desc>)", r'\1<rect width="100%" height="100%" fill="#ffffff"/>', svg, count=1)
    return svg


assert set(TIMES) <= set(WALL_CLOCK)
