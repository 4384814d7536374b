"""Which module may use which. The DEPS of penstock_module in each CMakeLists.txt are the one source: the build takes them from
there, ci/style.py compares the includes and the page docs/architecture.md with them, and tests/layers the compiler's folders."""
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ARCHITECTURE = "docs/architecture.md"
KEYWORDS = ("SOURCES", "ALONE", "DEPS", "LIBS")


def modules_of(text):
    """{module: its DEPS} of the penstock_module calls in one CMakeLists.txt."""
    found = {}
    for match in re.finditer(r"\bpenstock_module\(([^)]*)\)", re.sub(r"#[^\n]*", "", text)):
        name, *words = match.group(1).split()
        found[name] = []
        keyword = None
        for word in words:
            if word in KEYWORDS:
                keyword = word
            elif keyword == "DEPS":
                found[name].append(word)
    return found


def all_modules(root=ROOT):
    """The same of the whole tree."""
    found = {}
    for folder in ("src", "plugins", "lab"):
        for file in sorted(root.glob(f"{folder}/*/CMakeLists.txt")):
            found.update(modules_of(file.read_text()))
    return found


def folders_of_src(root=ROOT):
    return sorted(file.parent.name for file in root.glob("src/*/CMakeLists.txt"))


def used_by(module, modules):
    """All that `module` may use: its DEPS, theirs, and so on."""
    used, to_do = set(), list(modules.get(module, []))
    while to_do:
        name = to_do.pop()
        if name not in used:
            used.add(name)
            to_do += modules.get(name, [])
    return used


def check_deps(text, modules):
    """(line, complaint) for a CMakeLists.txt. Dependencies point down: no module uses itself by way of others."""
    here = modules_of(text)
    modules = {**modules, **here}
    for name, deps in here.items():
        line = text.count("\n", 0, text.index(name, text.index("penstock_module"))) + 1
        for dep in deps:
            if dep not in modules:
                yield line, f"DEPS of {name}: no CMakeLists.txt has a module {dep}"
            elif name == dep or name in used_by(dep, modules):
                yield line, f"DEPS of {name}: {name} must not use {dep}, which uses {name}: take one of the two out of DEPS"


def check_page(text, folders, modules):
    """(line, complaint) for docs/architecture.md: the diagram is its first block of code, the paragraphs begin with **NAME.**"""
    diagram = re.search(r"^```\n.*?^```$", text, flags=re.S | re.M)
    lines = {}
    for match in re.finditer(r"\bsrc/(\w+)", text[:diagram.end()] if diagram else ""):
        lines.setdefault(match.group(1), text.count("\n", 0, match.start()) + 1)
    for name in sorted(set(folders) - set(lines)):
        yield 1, f"the diagram has no line for src/{name}: add one above all that its DEPS name"
    for name in sorted(set(lines) - set(folders)):
        yield lines[name], f"the diagram shows src/{name}, which has no CMakeLists.txt: take the line out"
    for name in sorted(set(lines) & set(modules)):
        for dep in modules[name]:
            if dep in lines and lines[dep] <= lines[name]:
                yield lines[name], f"the diagram has src/{name} below src/{dep}, which the DEPS of {name} name: move its line up"
    paragraphs = set(re.findall(r"^\*\*(\w+)\.\*\*", text, flags=re.M))
    for name in sorted(set(folders) - paragraphs):
        yield 1, f"no paragraph begins with **{name}.**: say in a sentence or two what src/{name} is for"
