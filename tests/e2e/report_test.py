"""The report of penstock bench: its sentences follow from the data, bad input does not break it, and browsers show it."""

import html.parser
import json
import math
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

import bench_results
import browser
from support import PENSTOCK, SOURCE, Case, clean_environment

sys.path.insert(0, str(SOURCE / "python"))
from penstock.bench import compare, published  # noqa: E402
from penstock.bench.report import crossover, data, findings, page, tables  # noqa: E402
from penstock.bench.report import html as report_html  # noqa: E402

SCREENSHOTS = Path(PENSTOCK).resolve().parents[1] / "report"
VOID = {"meta", "link", "br", "img", "input", "hr"}
HOSTILE = "<script>alert(1)</script>&\"'`|]]>-->$x_{y}$\\ " + "W" * 300


def python_with_matplotlib():
    for venv in (".venv", ".venv-torch"):
        python = SOURCE / venv / "bin/python"
        if os.access(python, os.X_OK) and subprocess.run([python, "-c", "import matplotlib"], capture_output=True, check=False).returncode == 0:
            return str(python)
    return None


def results(**experiments):
    return {**bench_results.full(), "experiments": experiments}


def hostile():
    """Every name is markup, figures are no numbers, fields are missing or of another type."""
    sample = bench_results.Sample()
    odd = [sample.row(HOSTILE, HOSTILE, "latency_us", 1.0, bytes=size, median=median, serialized=serialized, procs=procs)
           for size, median, serialized, procs in ((8, math.nan, 2, 2), (0, 0.0, 0, 1), (64, 5.0, math.inf, None), (-1, -3.0, 1, 0),
                                                   (1 << 62, 1e300, 1, 1 << 40), ("x", "y", "z", "w"))]
    odd += [sample.row("TCP" + HOSTILE, HOSTILE, "latency_us", 1.0, bytes=size, baseline=True, median=0.0) for size in (8, 64)]
    odd += [{}, {"series": None, "metric": HOSTILE, "median": 1}, "no row", None, sample.row("\x00\x1b\ud800", "a", "nonsense", 3.0)]
    plots = [bench_results.plot(HOSTILE, HOSTILE, HOSTILE, metric="latency_us"), {}, None, {"where": 3, "x": "nothing"},
             bench_results.plot("series", HOSTILE, HOSTILE, "series", metric="latency_us"),
             bench_results.plot("none", "no rows", "", metric="none such")]
    named = {HOSTILE: bench_results.experiment(HOSTILE, odd, plots, status=HOSTILE, reason=HOSTILE), "empty": {}, "nothing": None,
             "one": bench_results.experiment("One row", [sample.row("a", "b", "time_us", 1.0)], [bench_results.plot("p", "One", "µs")])}
    return {**results(**named), "machine": {HOSTILE: HOSTILE, "n": None}, "warnings": [HOSTILE, 3], "commit": None, "seconds": math.nan,
            "command": HOSTILE, "started": HOSTILE}


CASES = {
    "full": bench_results.full, "hostile": hostile, "nothing": dict, "no experiment": results,
    "all absent": lambda: results(**{name: bench_results.experiment(name, status="absent", reason=f"{name} is not here: install it")
                                     for name in ("table1", "pt2pt", "stream")}),
    "interrupted": lambda: results(pt2pt={**bench_results.full()["experiments"]["pt2pt"], "status": "interrupted",
                                          "reason": "interrupted after 2 of 7 rounds"}),
    "zeros": lambda: results(pt2pt=bench_results.experiment("Zeros", [
        {**row, "median": 0, "spread": 0} for row in bench_results.Sample().messages("latency", "latency_us")],
        [bench_results.plot("latency", "Latency", "µs", op="latency")])),
}


class Checker(html.parser.HTMLParser):
    """The errors of a page: unclosed elements, duplicate ids, broken or external links."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.wrong, self.elements = [], set(), set(), [], {}
        self.feed(text)
        self.close()
        self.wrong += [f"<{tag}> is not closed" for tag in self.open]
        self.wrong += [f"#{link} leads nowhere" for link in self.links - self.ids]

    def handle_starttag(self, tag, attrs):
        self.elements[tag] = self.elements.get(tag, 0) + 1
        for name, value in attrs:
            if name == "id":
                self.wrong += [f"id {value} twice"] if value in self.ids else []
                self.ids.add(value)
            elif name in ("href", "src") and (value or "").startswith("#"):
                self.links.add(value[1:])
            elif name in ("href", "src") and value != "data:,":
                self.wrong.append(f"{tag} loads {value}")
            elif name == "aria-labelledby":
                self.links |= set(value.split())
            for used in re.findall(r"url\(#([^)]+)\)", value or ""):
                self.links.add(used)
        if len([name for name, _ in attrs]) != len({name for name, _ in attrs}):
            self.wrong.append(f"<{tag}> has an attribute twice")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> closes nothing")


class Sentences(Case):
    """The contents of the summary."""

    def experiment(self, rows, name="pt2pt"):
        return data.report_of(results(**{name: bench_results.experiment("Messages", rows)})).experiments[0]

    def rows(self, figures, op="latency", metric="latency_us", **facts):
        """{series: {size: median}}; the spread is 2 %."""
        return [bench_results.Sample().row(series, op, metric, 1.0, bytes=size, median=median, spread=0.02, baseline=not series.startswith("Pen"),
                                           **facts) for series, sizes in figures.items() for size, median in sizes.items()]

    def test_ratios_are_those_of_the_figures(self):
        rows = self.rows({"Penstock": {8: 0.5, 1024: 100.0}, "TCP": {8: 8.0, 1024: 50.0}, "shm": {8: 0.505, 1024: 100.0}})
        self.assertEqual([each.text for each in findings.ratios(self.experiment(rows))],
                         ["latency of Penstock (2 processes). 8 B: 0.500 µs, 16× lower than TCP; within the spread of shm. "
                          "1 KB: 100 µs, 2.0× higher than TCP; within the spread of shm."])

    def test_more_is_better_where_it_is(self):
        rows = self.rows({"Penstock": {8: 300.0}, "TCP": {8: 100.0}, "raw limit": {8: 600.0}}, "bandwidth", "bandwidth_MBps")
        experiment = self.experiment(rows)
        self.assertIn("3.0× higher than TCP", findings.ratios(experiment)[0].text)
        self.assertEqual([each.text for each in findings.limits(experiment)],
                         ["Penstock reaches 50 % of the bandwidth of “raw limit”, most at 8 B."])

    def test_more_ranks_than_cores_enter_no_ratio(self):
        figures = {"Penstock": {8: 0.5, 64: 0.5}, "TCP": {8: 8.0, 64: 8.0}, "raw limit": {8: 0.1, 64: 0.1}}
        experiment = self.experiment(self.rows(figures, wall=False))
        self.assertEqual(findings.ratios(experiment) + findings.limits(experiment) + crossover.of_experiment(experiment), [])
        self.assertNotIn("×</td>", report_html.table(tables.of_experiment(experiment)[0]))
        counted = self.experiment(self.rows({"Penstock": {8: 0.1}, "TCP": {8: 0.3}}, "bandwidth", "cpu_s_per_GB", wall=False))
        self.assertEqual([each.text for each in findings.cpu(counted)],
                         ["bandwidth: CPU-seconds to move 1 GB in messages of 8 B, 2 processes: Penstock 0.100 and TCP 0.300."])

    def test_published_figures_enter_no_ratio(self):
        rows = self.rows({"Penstock": {8: 0.5}}) + self.rows({"TCP": {8: 16.0}}, theirs=True)
        self.assertEqual(findings.ratios(self.experiment(rows)), [])

    def test_only_like_is_compared(self):
        """Modes and placements with themselves; what has no MPI around it with what has none."""
        names = ["Penstock software", "Penstock hardware", "Penstock software, without MPI", "raw limit, software", "TCP",
                 "cMPI ring, 64 KB cells, software", "osu_latency over TCP"]
        rows = [bench_results.Sample().row(name, "latency", "latency_us", 1.0, bytes=8, median=1.0 + place, baseline=name == "TCP")
                for place, name in enumerate(names)]
        experiment = self.experiment(rows)
        said = [each.text for each in findings.of_experiment(experiment)]
        self.assertEqual([re.findall("of (Penstock[^(]*) [(]", text) + re.findall("than ([^,;.]*)", text) for text in said[:3]],
                         [["Penstock software", "TCP"], ["Penstock hardware", "TCP"], ["Penstock software, without MPI", "cMPI ring"]])
        self.assertEqual([text.split(" has ")[0] for text in said[3:]], ["Penstock software", "Penstock software, without MPI"])

    def test_headline_figures(self):
        latency = self.rows({"Penstock": {8: 0.5, 64: 9.0}, "TCP": {8: 8.0, 64: 9.0}, "raw TCP socket": {8: 0.25, 64: 9.0}})
        bandwidth = self.rows({"Penstock": {8: 1.0, 64: 300.0}, "raw limit": {8: 9.0, 64: 400.0}}, "bandwidth", "bandwidth_MBps")
        made_up = results(pt2pt=bench_results.experiment("Messages", latency + bandwidth))
        self.assertEqual([(each.value, each.words) for each in findings.highlights(data.report_of(made_up))],
                         [("16×", "lower latency than TCP"), ("2.0×", "higher latency than raw TCP socket"), ("75 %", "of the bandwidth of “raw limit”")])
        for row in made_up["experiments"]["pt2pt"]["rows"]:
            row["rounds"] = 1
        self.assertEqual(findings.highlights(data.report_of(made_up)), [])

    def test_a_single_round_is_said(self):
        text = page(results(pt2pt=bench_results.experiment("Messages", [{**row, "rounds": 1} for row in self.rows({"Penstock": {8: 1.0}})])))
        self.assertIn("1 of 1 figure rest on a single round.", text)

    def test_crossover(self):
        def of(tcp):
            rows = self.rows({"Penstock": {1024: 1.0, 4096: 2.0, 16384: 8.0, 65536: 32.0}, "TCP": dict(zip((1024, 4096, 16384, 65536), tcp))})
            return [(each.size, each.brief) for each in crossover.of_experiment(self.experiment(rows))]
        self.assertEqual(of((8.0, 4.0, 4.0, 8.0)), [(8192, "above about 8 KB")])  # twice as bad, then twice as good
        self.assertEqual(of((8.0, 8.0, 16.0, 64.0)), [(None, "at no size measured")])
        self.assertEqual(of((0.5, 0.5, 0.5, 0.5)), [(None, "at every size measured that decides")])
        self.assertEqual(of((0.5, 8.0, 4.0, 64.0)), [(None, "at 1 KB and 16 KB, not at the other sizes")])
        self.assertEqual(of((1.0, 2.0, 8.0, 32.0)), [(None, "at no size measured")])

    def test_what_is_missing_is_said(self):
        text = page(results(pt2pt=bench_results.experiment("Messages", self.rows({"Penstock": {8: 1.0, 64: 1.0}}))))
        for said in (*findings.LACKING.values(), crossover.LACKING):
            self.assertIn(said, text)
        self.assertNotIn("TCP wins |", text)

    def test_the_model_of_a_real_device(self):
        experiment = self.experiment(self.rows({"Penstock": {8: 1.0}}, serialized=2))
        self.assertEqual([each.text for each in findings.model(experiment)],
                         ["latency of 8 B: 2 device accesses one after another (Penstock). At 0.79 to 2.2 µs each (cMPI, Table 1) that "
                          "alone takes 1.58 to 4.40 µs."])
        self.assertEqual(findings.model(self.experiment(self.rows({"TCP": {8: 1.0}}, serialized=2))), [])  # goes to no device
        cells = [cell.text for cell in tables.of_experiment(experiment)[0].rows[0]]
        self.assertEqual(cells[-1], "1.58 to 4.40")

    def test_published_points(self):
        """The last thread counts, as the paper's table of them has them."""
        last = {(each.group, each.series, each.op[0]): each.value for each in published.stream_data() if each.procs in (10, 20)}
        self.assertEqual(last["1a", "socket 0 → socket 0's DDR5 as PMem, close", "triad"], 23_184)
        self.assertEqual(last["1c", "both sockets → CXL as PMem, spread", "add"], 9_619)
        self.assertEqual(last["2b", "both sockets → CXL, close", "copy"], 9_351)
        self.assertEqual(len(published.stream_data()), 4 * 300)
        self.assertTrue(all(each.source and each.value > 0 for each in published.points()))


class Pages(Case):
    """The files: whole, alone, and unbroken by what stands in the results."""

    def setUp(self):
        super().setUp()
        self.python = python_with_matplotlib()
        if not self.python:
            self.skipTest("matplotlib is absent: ci/install.sh run")

    def made(self, made_up, folder="."):
        """The page of these results, and beside it kept/, a page of docs/results."""
        return self.all_made({folder: made_up})[0]

    def all_made(self, all_results):
        """{folder: results} -> the pages, by one process."""
        for name, made_up in all_results.items():
            (self.folder / name).mkdir(exist_ok=True)
            (self.folder / name / "results.json").write_text(json.dumps(made_up))
        script = ("import json, sys\nfrom pathlib import Path\nfrom penstock.bench import report\n"
                  "for folder in map(Path, sys.argv[1:]):\n"
                  "    results = json.loads((folder / 'results.json').read_text())\n"
                  "    print(report.write(results, folder))\n    report.keep(results, folder / 'kept')\n")
        done = subprocess.run([self.python, "-W", "error", "-c", script, *(self.folder / name for name in all_results)],
                              capture_output=True, text=True, timeout=200, env=clean_environment(PYTHONPATH=SOURCE / "python"))
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return [Path(line) for line in done.stdout.splitlines()]

    def test_whole_and_alone(self):
        for path in self.all_made({name: make() for name, make in CASES.items()}):
            with self.subTest(path.parent.name):
                text = path.read_text()
                self.assertEqual(Checker(text).wrong, [])
                self.assertLess(len(text.encode()), 2 << 20)
                self.assertNotRegex(text.replace('xmlns="http://www.w3.org/2000/svg"', ""), r"https?://|@import|url\((?!#)")
                self.assertNotIn("<script>alert", text)
                for kept in path.parent.glob("kept/*/*.svg"):
                    self.assertEqual(Checker(kept.read_text()).wrong, [])

    def test_plots_are_text_and_have_words(self):
        text = self.made(bench_results.full()).read_text()
        drawn = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
        self.assertEqual(len(drawn), 16)
        for svg in drawn:
            self.assertRegex(svg, r'role="img" aria-labelledby="\S+ \S+"><title id="[^"]+">[^<]+</title><desc id="[^"]+">[^<]+</desc>')
            self.assertIn("<text", svg)
            self.assertNotIn("#0100", svg)  # no colour that is not the page's
        latency = next(svg for svg in drawn if "Latency, 2 processes" in svg)
        for said in ("CXL (cMPI, Figure 8, text)", "model: accesses of Penstock, software × 0.79 to 2.2 µs", "raw limit"):
            self.assertIn(said, latency)
        stream = next(svg for svg in drawn if "Triad, class 2a" in svg)
        self.assertIn("socket 0 → CXL, close (STREAMer, Figures 5 to 8, data)", stream)

    def test_the_same_twice(self):
        first = self.made(bench_results.full()).read_text()
        self.assertEqual(first, self.made(bench_results.full()).read_text())

    def test_pages_of_results_and_their_index(self):
        kept = self.folder / "kept"
        kept.mkdir()
        (kept / "2025-01-01-old.md").write_text("# 2025-01-01, An old CPU\n\n| | |\n|---|---|\n| commit | abc |\n")
        self.made(bench_results.full())
        index = (kept / "README.md").read_text()
        self.assertIn("| [2026-01-02](2026-01-02-amd-epyc-9654-96-core-processor.md) | AMD EPYC 9654 96-Core Processor | dfed3b7 |\n"
                      "| [2025-01-01](2025-01-01-old.md) | An old CPU | abc |\n", index)
        text = (kept / "2026-01-02-amd-epyc-9654-96-core-processor.md").read_text()
        for linked in re.findall(r"!\[[^\]]*\]\(([^)]+)\)", text):
            self.assertTrue((kept / linked).exists(), linked)
        self.assertEqual(text.count("!["), 16)
        for line in ("| commit | dfed3b7 |", "| command | `penstock bench run --report build/bench` |"):
            self.assertIn(line, text)

    def test_markdown_tables_hold(self):
        for name, make in CASES.items():
            blocks = re.findall(r"(?:^\|.*\n)+", page(make()), re.MULTILINE)
            for block in blocks:
                columns = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
                self.assertEqual(len(columns), 1, f"{name}:\n{block}")

    def test_by_hand(self):
        file = self.folder / "results.json"
        file.write_text(json.dumps(bench_results.full()))
        program = [self.python, "-m", "penstock.bench.report"]
        environment = clean_environment(PYTHONPATH=SOURCE / "python")
        said = [subprocess.run([*program, *map(str, words)], capture_output=True, text=True, timeout=100, env=environment) for words in
                ([file, "--report", self.folder / "new", "--keep", self.folder / "kept"], [file, "--report", file], [self.folder / "none.json"], [])]
        self.assertEqual([each.returncode for each in said], [0, 1, 1, 2], said)
        self.assertTrue((self.folder / "new/report.html").exists() and (self.folder / "kept/README.md").exists())
        self.assertRegex(said[1].stderr, "penstock: error: cannot write .*results.json.*: give a folder that can be written")
        self.assertIn("penstock: error: cannot read", said[2].stderr)


class Looks(Pages):
    """In a browser: each width and colour scheme, on paper, and when it is used."""

    test_whole_and_alone = test_plots_are_text_and_have_words = test_the_same_twice = None
    test_pages_of_results_and_their_index = test_markdown_tables_hold = test_by_hand = None

    def setUp(self):
        super().setUp()
        if not browser.PROGRAM:
            self.skipTest(f"Chromium is absent: {browser.INSTALL}")
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)

    def shown(self, shows, path, name):
        """The errors in each width and colour scheme."""
        for width in (1440, 820, 360):
            for dark in (False, True):
                shows.open(path, width, dark=dark)
                wide, window = shows.value("[document.scrollingElement.scrollWidth, window.innerWidth]")
                self.assertLessEqual(wide, window, f"{name}: {width} pixels")
                ink, paper = shows.value("[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]")
                bright = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ink, paper)]
                self.assertGreater((bright[0] - bright[1]) * (1 if dark else -1), 400, f"{name}: {ink} on {paper}")
                if width != 820:
                    shows.screenshot(SCREENSHOTS / f"{name}-{'wide' if width > 600 else 'narrow'}-{'dark' if dark else 'light'}.png")
        shows.call("Emulation.setDeviceMetricsOverride", width=688, height=1000, deviceScaleFactor=1, mobile=False)  # A4 within its margins
        shows.call("Emulation.setEmulatedMedia", media="print")
        shows.value("dispatchEvent(new Event('beforeprint'))")
        self.assertLessEqual(shows.value("document.scrollingElement.scrollWidth"), 688, f"{name}: printed")
        shows.pdf(SCREENSHOTS / f"{name}.pdf")
        self.assertEqual((SCREENSHOTS / f"{name}.pdf").read_bytes()[:5], b"%PDF-")
        self.assertEqual(shows.complaints, [])
        self.assertEqual(set(shows.requests), {path.resolve().as_uri()})

    def test_every_width_and_scheme(self):
        path = self.made(bench_results.full())
        with browser.Browser() as shows:
            self.shown(shows, path, "full")
            shapes = shows.value("[...document.querySelectorAll('figure svg')].map(each => each.getBoundingClientRect().width)")
            self.assertEqual(len(shapes), 16)
            self.assertTrue(all(200 < width <= 360 for width in shapes), shapes)

    def test_hostile_results(self):
        path = self.made(hostile())
        with browser.Browser() as shows:
            self.shown(shows, path, "hostile")

    def test_tables_sort_and_unfold(self):
        path = self.made(bench_results.full())
        with browser.Browser() as shows:
            shows.open(path, 1200)
            column = ("[...document.querySelector('#experiments tbody').rows].map(row => row.children[3].textContent)")
            press = "document.querySelectorAll('#experiments th button')[3].click()"
            shows.value(press)
            rising = [int(text) for text in shows.value(column)]
            self.assertEqual(rising, sorted(rising))
            shows.value(press)
            self.assertEqual([int(text) for text in shows.value(column)], sorted(rising, reverse=True))
            folded = "[...document.querySelectorAll('details:not(.bulk)')].filter(each => !each.open).length"
            before = shows.value(folded)
            shows.value("dispatchEvent(new Event('beforeprint'))")
            self.assertEqual(shows.value(folded), 0)
            shows.value("dispatchEvent(new Event('afterprint'))")
            self.assertEqual(shows.value(folded), before)
            self.assertEqual(shows.complaints, [])


class Compare(Case):
    """penstock bench compare."""

    def figure(self, median, **facts):
        facts = {"bytes": 8, "median": median, "spread": 0.05, **facts}
        return bench_results.Sample().row("Penstock", "latency", "latency_us", 1.0, **facts)

    def verdicts(self, first, second):
        found = compare.compare(results(pt2pt=bench_results.experiment("Messages", first)), results(pt2pt=bench_results.experiment("Messages", second)))
        return [each.verdict for each in found.changes], found

    def test_verdicts(self):
        self.assertEqual(self.verdicts([self.figure(1.0)], [self.figure(1.2)])[0], [compare.WORSE])
        self.assertEqual(self.verdicts([self.figure(1.2)], [self.figure(1.0)])[0], [compare.BETTER])
        self.assertEqual(self.verdicts([self.figure(1.0)], [self.figure(1.05)])[0], [compare.SAME])
        for odd in ({"rounds": 1}, {"wall": False}, {"metric": "none such"}, {"median": math.nan}):
            rows = [{**self.figure(1.0), **odd}], [{**self.figure(2.0), **odd}]
            self.assertEqual(self.verdicts(*rows)[0], [compare.UNJUDGED], odd)
        counted = {"metric": "accesses", "rounds": 1, "spread": 0}
        rows = [[{**self.figure(value), **counted}] for value in (2, 3)]
        self.assertEqual(self.verdicts(*rows)[0], [compare.WORSE])
        self.assertEqual(self.verdicts([self.figure(1.0, theirs=True)], [self.figure(2.0, theirs=True)])[0], [])

    def test_bandwidth_is_better_when_it_is_more(self):
        rows = [[{**self.figure(value), "metric": "bandwidth_MBps"}] for value in (100.0, 200.0)]
        self.assertEqual(self.verdicts(*rows)[0], [compare.BETTER])

    def test_what_one_of_them_lacks(self):
        both, found = self.verdicts([self.figure(1.0), self.figure(1.0, procs=4)], [self.figure(1.0), self.figure(1.0, bytes=64)])
        self.assertEqual(both, [compare.SAME])
        self.assertEqual(found.notes, ["pt2pt: 1 figure only in the first run, of Penstock", "pt2pt: 1 figure only in the second run, of Penstock"])

    def test_the_program(self):
        first, second = bench_results.full(), bench_results.full()
        second["machine"]["memory"] = "48 GiB"
        for row in second["experiments"]["pt2pt"]["rows"][:3]:
            row["median"] *= 2
        files = [self.folder / name for name in ("a.json", "b.json")]
        for file, written in zip(files, (first, second)):
            file.write_text(json.dumps(written))
        program = [sys.executable, "-c", "import sys\nfrom pathlib import Path\nfrom penstock.bench import compare\n"
                   "sys.exit(compare.run(Path(sys.argv[1]), Path(sys.argv[2]), '--json' in sys.argv))"]
        environment = clean_environment(PYTHONPATH=SOURCE / "python")
        done = [subprocess.run([*program, *map(str, words)], capture_output=True, text=True, timeout=60, env=environment) for words in
                ((files[0], files[0]), files, (*files, "--json"), (files[0], self.folder / "none"))]
        self.assertEqual([each.returncode for each in done], [0, 3, 3, 1], done)
        self.assertIn("warning: the machines differ", done[1].stdout)
        self.assertIn("memory: 24 GiB / 48 GiB", done[1].stdout)
        self.assertIn("3 worse, 0 better", done[1].stdout)
        told = json.loads(done[2].stdout)
        self.assertEqual([each["times_better"] for each in told["changes"] if each["verdict"] == "worse"], [0.5] * 3)
        self.assertIn("penstock: error: cannot read", done[3].stderr)


if __name__ == "__main__":
    unittest.main()
