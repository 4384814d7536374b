"""What a Python program uses of MPI, NCCL and torch, by its source alone: nothing of it is imported or run.

penstock doctor --for gives this file to the program's own interpreter, with the interpreter's arguments. Prints JSON:
  version   of Python
  script    the program's file; null where there is none to read
  packages  {name: {version, through}} of those in WANTED that the program imports, itself or through another package
  missing   names of modules that are imported when the program begins, and are absent
  groups    [{backend, file, line}]: the back ends that calls of init_process_group name
  penstock  whether this Python has Penstock's package
  mpi4py    files by which mpi4py reaches an MPI, one for each kind that it serves
  modules   compiled modules of the packages that the program imports: they may be linked with an MPI
"""
import sys

if sys.path[:1] == [""]:
    del sys.path[0]  # modules of the folder that we run in, such as a csv.py, are not ours

import ast
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import re

WANTED = "mpi4py", "torch"
TAKES_VALUE = {"-W", "-X", "--check-hash-based-pycs"}
MOST_FILES = 300  # of a program
MOST_MODULES = 200
FOLDER = [""]  # of the program: Python would look there first


def program_file(arguments):
    """The file that the interpreter would run, the arguments behind it, and the package that -m names."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        if arguments[at] == "-m" and at + 1 < len(arguments):
            name = arguments[at + 1]
            return module_file(name), arguments[at + 2:], {name.partition(".")[0]}
        if arguments[at] == "-c":
            return None, [], set()
        at += 2 if arguments[at] in TAKES_VALUE else 1
    return (arguments[at], arguments[at + 1:], set()) if at < len(arguments) else (None, [], set())


def module_file(name):
    top = spec_of(name.partition(".")[0])
    if top is None or not top.origin:
        return None
    if top.submodule_search_locations is None:
        return top.origin
    path = os.path.join(os.path.dirname(top.origin), *name.split(".")[1:])
    found = [each for each in (path + ".py", os.path.join(path, "__main__.py")) if os.path.isfile(each)]
    return found[0] if found else None


def spec_of(name):
    own = importlib.machinery.PathFinder.find_spec(name, FOLDER)
    if own is not None and own.origin:
        return own
    try:
        return importlib.util.find_spec(name) or own
    except (ImportError, ValueError, AttributeError):
        return None


class Source:
    """The imports and process groups of one file."""

    def __init__(self, path):
        self.imports, self.needed, self.groups = set(), set(), []
        with open(path, "rb") as file:
            tree = ast.parse(file.read())
        optional = {id(node) for outer in ast.walk(tree) if isinstance(outer, (ast.Try, ast.If, ast.FunctionDef))
                    for node in ast.walk(outer)}
        for node in ast.walk(tree):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names = [node.module]
            elif isinstance(node, ast.Call):
                self.note_group(node, path)
            tops = {name.partition(".")[0] for name in names}
            self.imports |= tops
            if id(node) not in optional:
                self.needed |= tops

    def note_group(self, call, path):
        function = call.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name != "init_process_group":
            return
        given = call.args[:1] + [word.value for word in call.keywords if word.arg == "backend"]
        backend = given[0].value if given and isinstance(given[0], ast.Constant) else None
        backend = backend if isinstance(backend, str) else None
        self.groups.append({"backend": backend, "file": path, "line": call.lineno, "named": bool(given)})


def is_own(name, folder):
    """The program's module of that name in its own folder; None if it is a package that is installed."""
    for path in (os.path.join(folder, name + ".py"), os.path.join(folder, name, "__init__.py")):
        if os.path.isfile(path):
            return path
    return None


def read_program(files):
    imports, missing, groups, seen = set(), set(), [], set()
    while files and len(seen) < MOST_FILES:
        path = files.pop()
        if path in seen:
            continue
        seen.add(path)
        try:
            source = Source(path)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        groups += source.groups
        for name in source.imports:
            own = is_own(name, os.path.dirname(path))
            if own:
                files.append(own)
            elif name not in sys.builtin_module_names and name != "__main__":
                imports.add(name)
                if name in source.needed and spec_of(name) is None:
                    missing.add(name)
    return imports, missing, groups


def requirements(distribution):
    """The names of the packages that a package always needs."""
    try:
        lines = importlib.metadata.requires(distribution) or []
    except importlib.metadata.PackageNotFoundError:
        return []
    plain = [line for line in lines if "extra ==" not in line]
    return [re.match(r"[\w.-]+", line).group().lower().replace("_", "-") for line in plain]


def distributions_of(module):
    mapping = getattr(importlib.metadata, "packages_distributions", lambda: {})()
    return mapping.get(module, [module])


def wanted_packages(imports):
    """Those of WANTED that are imported, and by which of the program's imports."""
    found = {}
    for module in sorted(imports, key=lambda name: (name not in WANTED, name)):
        waiting, seen = list(distributions_of(module)), set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in WANTED and name not in found:
                found[name] = None if name == module else module
            waiting += requirements(name)
    packages = {}
    for name, through in found.items():
        try:
            packages[name] = {"version": importlib.metadata.version(name), "through": through}
        except importlib.metadata.PackageNotFoundError:
            pass
    return packages


def mpi4py_libraries():
    spec = spec_of("mpi4py")
    if spec is None or not spec.origin:
        return []
    folder = os.path.dirname(spec.origin)
    return sorted(os.path.join(folder, name) for name in os.listdir(folder)
                  if name.startswith("MPI.") and name.endswith(".so"))


def compiled_modules(imports):
    found = []
    for name in sorted(imports - {"mpi4py", "torch"}):
        for distribution in distributions_of(name):
            try:
                files = importlib.metadata.files(distribution) or []
            except importlib.metadata.PackageNotFoundError:
                continue
            found += [str(file.locate()) for file in files if file.name.endswith(".so")]
    return found[:MOST_MODULES]


def main():
    script, rest, started = program_file(sys.argv[1:])
    if script and os.path.isdir(script):
        script = os.path.join(script, "__main__.py")
    # A launcher of Python programs, such as torchrun, has the program among its arguments.
    files = [path for path in [script] + [each for each in rest if each.endswith(".py")] if path and os.path.isfile(path)]
    FOLDER[0] = os.path.dirname(os.path.abspath(files[-1])) if files else ""
    imports, missing, groups = read_program(files[:])
    missing |= {name for name in started if spec_of(name) is None}
    imports |= started
    packages = wanted_packages(imports)
    answer = json.dumps({
        "version": ".".join(map(str, sys.version_info[:3])),
        "script": files[-1] if files else None,
        "packages": packages,
        "missing": sorted(missing),
        "groups": groups,
        "penstock": spec_of("penstock") is not None,
        "mpi4py": mpi4py_libraries() if "mpi4py" in packages else [],
        "modules": compiled_modules(imports),
    }, ensure_ascii=False)
    sys.stdout.buffer.write(answer.encode(errors="replace"))  # a path may not be UTF-8


if __name__ == "__main__":
    main()
