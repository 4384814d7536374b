"""The report of `penstock bench`: the contents of results.json as a page for people.

    write(results, folder)      folder/report.html: one file, nothing loaded, light and dark, screen and paper
    page(results)               the same as Markdown, for docs/results
    keep(results, folder)       the Markdown page with its plots as files, and the index of all pages, in docs/results

`results` has the format of results.json (penstock.bench.model): a mapping, for example `model.Results.as_dict()`. It is
not trusted: missing or invalid values are left out. Without matplotlib the pages have no plots, and say so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping

from penstock.bench.report import html, markdown
from penstock.bench.report.data import report_of

__all__ = ["keep", "page", "write"]


def write(results: Mapping[str, Any], folder: Path) -> Path:
    """Writes folder/report.html, and returns its path. Errors: OSError.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write({"experiments": {}}, Path(folder)).name
    'report.html'
    """
    path = folder / "report.html"
    path.write_text(html.page(report_of(results)), encoding="utf-8")
    return path


def page(results: Mapping[str, Any]) -> str:
    """The results as Markdown, without plots.

    >>> page({"started": "2026-01-02T03:04:05", "machine": {"processor": "A CPU"}}).splitlines()[0]
    '# 2026-01-02, A CPU'
    """
    return markdown.page(report_of(results), {})


def keep(results: Mapping[str, Any], folder: Path) -> Path:
    """Writes the page, its plots and the index into `folder`, and returns the page's path. Errors: OSError."""
    return markdown.keep(report_of(results), folder)
