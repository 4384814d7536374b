"""Makes pages from a file of results.

    python -m penstock.bench.report build/bench/results.json                          # report.html beside it
    python -m penstock.bench.report build/bench/results.json --keep docs/results      # also a page in docs/results
    python -m penstock.bench.report --index docs/results                              # only the index of the pages
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Optional, Sequence

from penstock.bench import model, report
from penstock.bench.report import markdown, plots


def main(arguments: Optional[Sequence[str]] = None) -> int:
    parser = argparse.ArgumentParser(prog="penstock.bench.report", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="?", help="a results.json of penstock bench run")
    parser.add_argument("--report", type=Path, help="the folder for report.html (default: that of the results)")
    parser.add_argument("--keep", type=Path, help="also write a page of Markdown, its plots and the index into this folder")
    parser.add_argument("--index", type=Path, help="write the index of the pages in this folder anew")
    options = parser.parse_args(arguments)
    if not options.results and not options.index:
        parser.error("give the results.json that 'penstock bench run' wrote, or --index FOLDER")
    try:
        if options.results:
            results = model.read(options.results).as_dict()
            folder = options.report or options.results.parent
            folder.mkdir(parents=True, exist_ok=True)
            print(report.write(results, folder))
            if options.keep:
                print(report.keep(results, options.keep))
            if not plots.available():
                print(f"penstock: warning: {plots.HINT}", file=sys.stderr)
        if options.index:
            markdown.index(options.index)
    except model.ModelError as error:
        print(f"penstock: error: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"penstock: error: cannot write {error.filename}: {error.strerror}: give a folder that can be written", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
