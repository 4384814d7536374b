#!/usr/bin/env python3
"""Checks what can be checked of the documentation. Prints FILE:LINE: what is wrong.

- docs/environment.md names the variables of src/base/env_table.cpp: all of them, no others, with
  the same default and values, in the table of the same audience.
- Relative links in *.md lead somewhere, also to a heading.
- Files named in `backquotes` with a folder of the sources exist.
- Names of functions and variables in `backquotes`, such as `Class::member`, occur in the sources.
- Words that do not belong in documentation are absent.
- A page of docs/decisions or docs/protocols is linked from some other page.
- Files named in the first column of a table `file` of a plug-in's page lie beside it.
- Each program of tests/works-with has a row in docs/works-with.md.
- The numbers in each row of a table below `<!-- figures: PAGE -->` stand in one row of a table of that page, in the same order, and
  the first cell of that row ("8 B") is one of the words between commas of the first cell here. Each table of figures in README.md
  has such a comment.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FORBIDDEN = re.compile(
    r"\bTO" r"DO\b|\bFIX" r"ME\b|(?<!/)\bsessions?\b|\bagents?\b|@@\w+@@|/home/\w|/root/|/work/|/tmp/bash", re.I)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
SOURCE = re.compile(r"`((?:src|plugins|tools|lab|sim|fuzz|proof|ci|cmake|docs|examples|include|tests)/[\w./-]+\.\w+)`")
NAME = re.compile(r"`((?:\w+::)*\w+(?:\(\))?)`")
FOREIGN = re.compile(r"process_vm_readv|fi_\w+|(?i:mpir?_\w+)|[A-Z_0-9]+")  # of others, or no name of code
VARIABLE = re.compile(r'Variable\{\s*"(PENSTOCK_\w+)",\s*"([^"]*)",\s*"([^"]*)",\s*Audience::(\w+),')
AUDIENCES = {"user": "Users", "administrator": "Administrators", "tuning": "Tuning", "penstock": "Set by Penstock's commands",
             "tests": "Tests"}  # in the code, and the heading of their table
FILES = re.compile(r"^\| file \|.*\n\|.*\n((?:\|.*\n)+)", re.M)
FIGURES = re.compile(r"^<!-- figures: (\S+) -->\n\n\|.*\n\|.*\n((?:\|.*\n)+)", re.M)
NUMBER = re.compile(r"(?<=\| )[\d.,]+(?= (?:\||±))")
ROW = re.compile(r"^\| `(PENSTOCK_\w+)` \| ([^|]*) \| ((?:\\\||[^|])*) \|")


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def without_code(text):
    """Code blocks become blanks; lines keep their numbers."""
    return re.sub(r"^```.*?^```", lambda m: re.sub(r"[^\n]", " ", m.group(0)), text, flags=re.S | re.M)


def anchors(text):
    """The names that headings have in links."""
    names = set()
    for heading in re.findall(r"^#+\s+(.*?)\s*$", without_code(text), flags=re.M):
        plain = re.sub(r"[^\w\- ]", "", heading.lower())
        names.add(plain.replace(" ", "-"))
    return names


def documents():
    command = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard", "*.md"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    return [ROOT / name for name in listed if name and (ROOT / name).is_file()]


def check_links(path, text):
    for match in LINK.finditer(without_code(text)):
        target = match.group(1)
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        if not file.exists():
            yield line_of(text, match.start()), f"link to {target}: there is no such file"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text()):
            yield line_of(text, match.start()), f"link to {target}: there is no such heading"


def check_text(text):
    prose = re.sub(r"`[^`\n]*`", lambda m: "`" * len(m.group(0)), text)  # names of files may be anything
    for match in FORBIDDEN.finditer(prose):
        yield line_of(text, match.start()), f"'{match.group(0)}' does not belong here"
    for match in SOURCE.finditer(text):
        if not (ROOT / match.group(1)).exists():
            yield line_of(text, match.start()), f"{match.group(1)}: there is no such file"


def names_in_sources():
    command = ["git", "-C", str(ROOT), "ls-files", "-co", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    names = set()
    for name in listed:
        if name and not name.endswith((".md", ".svg")) and (ROOT / name).is_file():
            names.update(re.findall(r"\w+", name + " " + (ROOT / name).read_text(errors="replace")))
    return names


def check_names(text, known):
    for match in NAME.finditer(without_code(text)):
        plain = match.group(1).removesuffix("()")
        last = plain.split("::")[-1]
        of_code = plain != match.group(1) or "::" in plain or "_" in plain
        if of_code and last not in known and not FOREIGN.fullmatch(plain):
            yield line_of(text, match.start()), f"{match.group(1)}: the sources have no such name"


def variables_in_code():
    text = (ROOT / "src/base/env_table.cpp").read_text()
    return {name: (default, values, AUDIENCES[audience]) for name, default, values, audience in VARIABLE.findall(text)}


def variables_in_page(text):
    rows, heading = {}, ""
    for number, line in enumerate(text.split("\n"), 1):
        heading = line.removeprefix("### ") if line.startswith("### ") else heading
        match = ROW.match(line)
        if match:
            default = match.group(2).strip().strip("`")
            values = match.group(3).strip().replace("\\|", "|").strip("`")
            rows[match.group(1)] = (number, "" if default == "–" else default, values, heading)
    return rows


def check_environment(text):
    code, page = variables_in_code(), variables_in_page(text)
    if not code:
        yield 1, "src/base/env_table.cpp: no variable was recognized"
    for name in sorted(code.keys() - page.keys()):
        yield 1, f"{name} of src/base/env_table.cpp is missing"
    for name in sorted(page.keys() - code.keys()):
        yield page[name][0], f"{name} is not in src/base/env_table.cpp"
    for name in sorted(code.keys() & page.keys()):
        number, default, values, heading = page[name]
        if (default, values, heading) != code[name]:
            yield number, f"{name}: default '{default}', values '{values}', below '{heading}'; in the code: {code[name]}"


def check_files(path, text):
    """`x.cpp` is a file; `x.*` and `x` are all files whose names begin so."""
    if path.parent.parent != ROOT / "plugins":
        return
    beside = [file.name for file in path.parent.iterdir()]
    for match in FILES.finditer(text):
        for number, row in enumerate(match.group(1).splitlines(), line_of(text, match.start(1))):
            for name in re.findall(r"`([\w.]+)\*?`", row.split("|")[1]):
                stem = name.rstrip(".") + "."
                if not any(file == name or file.startswith(stem) for file in beside):
                    yield number, f"{name}: there is no such file beside this page"


def in_order(wanted, among):
    rest = iter(among)
    return all(each in rest for each in wanted)


def check_figures(path, text):
    for match in FIGURES.finditer(text):
        page = ROOT / match.group(1)
        measured = page.read_text().split("\n") if page.is_file() else []
        for number, row in enumerate(match.group(2).splitlines(), line_of(text, match.start(2))):
            figures, what = NUMBER.findall(row), row.split("|")[1]
            same = [each for each in measured if each.startswith("| ") and f" {each.split(' | ')[0][2:]}," in f"{what.rstrip()},"]
            if not any(in_order(figures, NUMBER.findall(each)) for each in same):
                yield number, f"{', '.join(figures)}: no row of {match.group(1)} for{what}has these figures: copy them from there"
    if path == ROOT / "README.md":
        for table in re.finditer(r"^\|.*\n\|[^\n]*---:", text, flags=re.M):
            if not re.search(r"<!-- figures: \S+ -->\n\n$", text[:table.start()]):
                yield line_of(text, table.start()), "a table of figures needs <!-- figures: docs/results/PAGE --> above it"


def check_reachable(pages):
    linked = set()
    for path, text in pages.items():
        for match in LINK.finditer(without_code(text)):
            linked.add((path.parent / match.group(1).partition("#")[0]).resolve())
    for path in pages:
        folder = path.parent.name
        if folder in ("decisions", "protocols") and path.name != "README.md" and path not in linked:
            yield path, 1, "no page links to this one"


def check_works_with(text):
    for program in sorted((ROOT / "tests/works-with/programs").glob("*.py")):
        if f"tests/works-with/programs/{program.name})" not in text:
            yield 1, f"{program.stem} has no row; to fix: make works-with PROGRAM={program.stem}"


def complaints():
    pages = {path: path.read_text() for path in documents()}
    known = names_in_sources()
    for path, text in pages.items():
        for check in (check_links(path, text), check_text(text), check_names(text, known),
                      check_files(path, text), check_figures(path, text)):
            for number, what in check:
                yield path, number, what
    environment = ROOT / "docs/environment.md"
    for number, what in check_environment(pages.get(environment, "")):
        yield environment, number, what
    works_with = ROOT / "docs/works-with.md"
    for number, what in check_works_with(pages.get(works_with, "")):
        yield works_with, number, what
    yield from check_reachable(pages)


def main():
    found = list(complaints())
    for path, number, what in found:
        print(f"{path.relative_to(ROOT)}:{number}: {what}")
    print(f"docs: {len(found)} complaints")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
