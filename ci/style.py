#!/usr/bin/env python3
"""The style rules that a compiler does not check, as a test. Prints FILE:LINE: what is wrong."""
import ast
import re
import subprocess
import sys
from pathlib import Path

import citations
import layers

MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 600
MODULES = layers.all_modules()
FOLDERS_OF_SRC = layers.folders_of_src()
CODE = {".cpp", ".hpp", ".c", ".h", ".cu", ".cuh"}
MARKERS = "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X"])
RULES_OF_TEXT = [
    (rf"\b(?:{MARKERS})\b", "unfinished: do it, or open an issue"),
    (r"[ \t]+$", "blanks at the end of the line"),
]
INSTRUCTIONS = re.compile(
    r"_mm\w*_(?:clflush|clflushopt|clwb|sfence|mfence|lfence|stream|maskmoveu)\w*|__builtin_ia32_\w*"
    r"(?:clflush|clwb|fence|movnt)\w*|__builtin_arm_\w*")
ASSEMBLY = re.compile(r"\b(?:__asm__|asm)\b[^;]*?\b(clflush\w*|clwb|[sml]fence|movnt\w*|lock|dc|dsb|dmb)\b")
# (file, part of the complaint): why it is right there.
EXCEPTIONS = {
    ("plugins/session/session.cpp", "does not end the process"):
        "PENSTOCK_REQUIRE: the MPI would otherwise go on with another provider",
    ("src/pool/own_slot.cpp", "does not end the process"):
        "a process that was declared dead: its locks and memory have other owners, and the program stores there by itself",
    ("tools/job_processes.cpp", "/dev/shm/mpich_"):
        "MPICH's name, not a pool's: what it leaves behind after a crash",
    ("lab/bench/gpu/probe.cu", "stands outside src/arch"):
        "part of a plain CUDA program, which measures the instructions themselves",
    ("lab/bench/mpi/raw_copy.h", "stands outside src/arch"):
        "part of a plain MPI program, which can have nothing of Penstock's",
}
# Words that were replaced by the field's (docs/glossary.md), so that they do not come back.
RETIRED_WORDS = re.compile(
    r"\b(?:settle|full_order|check_of|within_node|peer_rows|lasting_offset_of|held_back|bare_lines|paper_ring|"
    r"Landing|Sink|Awaited|Cleared|Naming|Carried|Knobs|Chooser|Tally|Meddler|Duel|Carrier|impatient|hurry|visitor|"
    r"keeper|most_\w+)\b")
POOL_PATH = re.compile(r'"(?:/dev/dax\d[^"]*|/tmp/[^"]*|/dev/shm/(?!penstock\.)[^"]+)"')


def blank(match):
    return re.sub(r"[^\n]", " ", match.group(0))


def without_comments(text):
    """Comments become blanks; strings stay. Lines keep their numbers."""
    token = r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'|//[^\n]*|/\*.*?\*/'
    keep = lambda m: m.group(0) if m.group(0)[0] in "\"'" else blank(m)
    return re.sub(token, keep, text, flags=re.S)


def without_strings(text):
    """As above, and strings, characters and preprocessor lines become blanks too."""
    text = re.sub(r'R"(\w*)\(.*?\)\1"', blank, text, flags=re.S)
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\'', blank, without_comments(text))
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.M)


def opens_function(head):
    head = re.sub(r"^\s*template\s*<.*?>\s*(?=\w)", "", head, flags=re.S)
    if re.match(r"\s*(?:inline\s+)?(?:namespace|class|struct|union|enum|extern)\b(?![^{]*\)\s*$)", head):
        return False
    return ")" in head


def cpp_functions(text):
    """(first line, last line) of each function, by counting braces."""
    text = without_strings(text)
    stack, start, line = [], 0, 1
    functions = []
    for at, char in enumerate(text):
        if char == "\n":
            line += 1
        elif char == "{":
            inside = any(kind == "function" for kind, _ in stack)
            head = text[start:at]
            is_function = not inside and opens_function(head)
            first = line - head.lstrip().count("\n")
            stack.append(("function" if is_function else "other", first))
            start = at + 1
        elif char == "}" and stack:
            kind, first = stack.pop()
            if kind == "function":
                functions.append((first, line))
            start = at + 1
        elif char == ";":
            start = at + 1
    return functions


def python_functions(text):
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return [(n.lineno, n.end_lineno) for n in ast.walk(ast.parse(text)) if isinstance(n, kinds)]


def check_lengths(path, text):
    lines = text.count("\n")
    if lines > MAX_FILE_LINES and "docs/results" not in path.as_posix():  # made by the tool
        yield lines, f"{lines} lines; at most {MAX_FILE_LINES}: which second concept lives here?"
    functions = []
    if path.suffix in CODE:
        functions = cpp_functions(text)
    elif path.suffix == ".py":
        functions = python_functions(text)
    for first, last in functions:
        if last - first + 1 > MAX_FUNCTION_LINES:
            yield first, f"function of {last - first + 1} lines; at most {MAX_FUNCTION_LINES}"


def check_text(text):
    for number, line in enumerate(text.split("\n"), 1):
        for pattern, complaint in RULES_OF_TEXT:
            if re.search(pattern, line):
                yield number, complaint
    if text and not text.endswith("\n"):
        yield text.count("\n") + 1, "no newline at the end of the file"


def line_of(text, at):
    return text.count("\n", 0, at) + 1


def is_test(path):
    return (path.stem.endswith(("_test", "_bench")) or path.stem.startswith("test_")
            or path.parts[0] in ("tests", "examples", "fuzz") or path.parts[:2] == ("lab", "bench"))


def check_code(path, text):
    code = without_comments(text)
    bare = without_strings(text)
    if path.parts[:2] != ("src", "arch"):
        for match in INSTRUCTIONS.finditer(bare):
            yield line_of(bare, match.start()), f"{match.group(0)} stands outside src/arch"
        for match in ASSEMBLY.finditer(code):
            yield line_of(code, match.start()), f"{match.group(1)} stands outside src/arch"
    if not is_test(path):
        for match in POOL_PATH.finditer(code):
            yield line_of(code, match.start()), f"{match.group(0)}: a path is the user's to choose"
    if path.parts[0] in ("src", "plugins") and not is_test(path):
        for match in re.finditer(r"(?<![\w.>])(?:std::)?_?exit\s*\(", bare):
            yield line_of(bare, match.start()), "a library does not end the process"
    if path.parts[:2] != ("src", "base") and not is_test(path):
        for match in re.finditer(r'getenv\s*\(\s*"PENSTOCK_', code):
            yield line_of(code, match.start()), "variables are read through base/env.hpp"
    for match in RETIRED_WORDS.finditer(bare):
        yield line_of(bare, match.start()), f"{match.group(0)} was replaced by another word, see docs/glossary.md"
    if not re.fullmatch(r"[a-z0-9_]+", path.stem):
        yield 1, "files are named in snake_case"


def check_includes(path, text):
    own = path.parts[1] if path.parts[0] == "src" and path.parts[1] in MODULES else None
    for match in re.finditer(r'^\s*#\s*include\s+"([^"]+)"', text, flags=re.M):
        used = match.group(1).split("/")[0]
        number = line_of(text, match.start(1))
        if ".." in match.group(1).split("/"):
            yield number, "a header is included by its folder's name"
        if own and used != own and used in FOLDERS_OF_SRC and used not in layers.used_by(own, MODULES):
            yield number, f"{own} must not include {used}: the DEPS of src/{own}/CMakeLists.txt do not lead there"
        if path.parts[0] != "sim" and path.parts[0] != "tests" and match.group(1).startswith("sim/"):
            yield number, "production code does not include sim"


def complaints(path, text):
    for number, complaint in all_complaints(path, text):
        if not any(str(path) == file and part in complaint for file, part in EXCEPTIONS):
            yield number, complaint


def all_complaints(path, text):
    yield from check_text(text)
    yield from check_lengths(path, text)
    if path.suffix in CODE:
        yield from check_code(path, text)
        yield from check_includes(path, text)
    if path.name == "CMakeLists.txt":
        yield from layers.check_deps(text, MODULES)
    if path.as_posix() == layers.ARCHITECTURE:
        yield from layers.check_page(text, FOLDERS_OF_SRC, MODULES)


def check_comments(files):
    """Across files: what comments of one name stands in others."""
    texts = {path: path.read_text() for path in files if path.suffix in CODE | {".py"}}
    known = citations.definitions({path: without_comments(text) for path, text in texts.items() if path.suffix in CODE})
    sources = citations.known_sources()
    for path, text in texts.items():
        for number, complaint in citations.check(path, text, known, sources):
            yield path, number, complaint


def tracked_files():
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    kinds = CODE | {".py", ".sh", ".md", ".cmake", ".txt"}
    return [Path(f) for f in listed if f and (Path(f).suffix in kinds or Path(f).name == "Makefile")]


def main():
    count = 0
    files = [path for path in tracked_files() if path.is_file()]
    found = [(path, number, complaint) for path in files for number, complaint in complaints(path, path.read_text())]
    for path, number, complaint in [*found, *check_comments(files)]:
        print(f"{path}:{number}: {complaint}")
        count += 1
    print(f"style: {len(files)} files, {count} complaints")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
