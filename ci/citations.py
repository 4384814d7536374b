"""Two kinds of comments point elsewhere, and what they name must exist.

- "pairs with" names the other side of an ordering by `function()`, in a file of the same folder, or by `Class::member`.
- "Source:" names, in each part between semicolons, a file of the tree or a paper or specification of docs/sources.md. A name in
  quotes after a page is a heading of that page, or a phrase on it.
"""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*(?:\n[ \t]*//[^\n]*)*|/\*.*?\*/', re.S)
DOCSTRING = re.compile(r'""".*?"""', re.S)
NAME = re.compile(r"\b(?:(\w+)::)?(\w+)(\(\))?")
FILE = re.compile(r"\b[\w/-]+\.(?:md|hpp|cpp|h|cu|py)\b")
QUOTED = re.compile(r'(docs/[\w/-]+\.md), ((?:"[^"]+"(?: and |, )?)+)')


def cited(path, text, opening):
    """(offset, the rest of the sentence) behind each `opening` in a comment: lines that follow each other are one comment."""
    for comment in (DOCSTRING if path.suffix == ".py" else COMMENT).finditer(text):
        raw = comment.group(0)
        for match in re.finditer(opening, raw) if raw[0] == "/" or path.suffix == ".py" else ():
            prose = re.sub(r"\s*\n[ \t]*(?:///?<?|\*(?!/))?[ \t]*", " ", raw[match.end():])
            yield comment.start() + match.start(), re.split(r"\.(?=\s+[A-Z]|\s*(?:\*/|\"\"\")?\s*$)", prose)[0]


def known_sources():
    return re.findall(r"^\| ([^|]+?) \|", (ROOT / "docs/sources.md").read_text(), flags=re.M)[1:]


def definitions(texts):
    """{folder: functions that its code calls or defines}, {class: members}, of {path: code without comments}."""
    by_folder, by_class = {}, {}
    for path, code in texts.items():
        functions = re.findall(r"\b(\w+)\s*\(", code)
        by_folder.setdefault(path.parent, set()).update(functions)
        for owner, member in re.findall(r"\b(\w+)::~?(\w+)", code):
            by_class.setdefault(owner, set()).add(member)
        for owner in re.findall(r"\b(?:class|struct)\s+(?:alignas\(\w+\)\s*)?(\w+)[^;{]*\{", code):
            by_class.setdefault(owner, set()).update(functions)
    return by_folder, by_class


def check_pairs(path, words, known):
    by_folder, by_class = known
    names = [match.groups() for match in NAME.finditer(words) if match.group(1) or match.group(3)]
    if not names:
        yield f"'pairs with{words}': name the other side as function() or Class::member"
    for owner, member, _ in names:
        if owner and member not in by_class.get(owner, ()):
            yield f"'pairs with' {owner}::{member}: no code has that: name the function that orders the other side"
        elif not owner and member not in by_folder.get(path.parent, ()):
            yield f"'pairs with' {member}(): no code in {path.parent} has that: name the function, or its class too"


def check_sources(words, sources):
    for part in words.split(";"):
        files = FILE.findall(part)
        for file in files:
            if not (ROOT / file).is_file():
                yield f"Source: {file}: there is no such file: cite a page of docs by its path"
        if not files and not any(name in part for name in sources):
            yield f"Source:{part.rstrip()}: cite a file of the tree, or add the work to docs/sources.md and use its name"
    for page, quoted in QUOTED.findall(words):
        for phrase in re.findall(r'"([^"]+)"', quoted):
            if (ROOT / page).is_file() and phrase not in (ROOT / page).read_text():
                yield f'Source: {page} has no "{phrase}": cite a heading of the page'


def check(path, text, known, sources):
    """(line, complaint) of one file; `known` is what definitions() gives, `sources` what known_sources() gives."""
    for start, words in cited(path, text, r"\bSources?:"):
        for complaint in check_sources(words, sources):
            yield text.count("\n", 0, start) + 1, complaint
    for start, words in cited(path, text, r"\b[Pp]airs\s+with\b") if path.suffix != ".py" else ():
        for complaint in check_pairs(path, words, known):
            yield text.count("\n", 0, start) + 1, complaint
