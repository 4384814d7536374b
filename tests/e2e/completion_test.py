"""Output generated from the parser's tree: --help, man pages, completion for bash and zsh. All of them must contain each
option of each subcommand."""

import re
import shutil
import subprocess
import unittest

from support import PENSTOCK, SOURCE, Case, clean_environment

BASH = """source {script}
COMP_LINE={line!r} COMP_POINT={point}
_penstock
printf '%s\\n' "${{COMPREPLY[@]}}"
"""
# _arguments prints its arguments: one specification per line.
ZSH = """compdef() {{ }}; _arguments() {{ print -rl -- "$@" }}; _describe() {{ print -rl -- ${{(P)4}} }}; _files() {{ }}
_alternative() {{ }}
source {script}
{call}
"""


def help_of(words):
    done = subprocess.run([PENSTOCK, *words, "--help"], capture_output=True, text=True, check=True, env=clean_environment())
    return done.stdout


def section(text, title):
    """The left column of a section's rows."""
    found = re.search(rf"^{title}:\n((?:  .*\n)*)", text, re.M)
    rows = found.group(1).splitlines() if found else []
    return [re.split(r"\s{2,}", row.strip())[0] for row in rows if re.match(r"  \S", row)]


def commands():
    """(words, names of options, subcommands) of each command, by their --help."""
    found, left = [], [[]]
    while left:
        words = left.pop()
        text = help_of(words)
        options = [re.split(r"[ \[]", name)[0] for row in section(text, "Options") for name in re.split(r",\s+(?=-)", row)]
        below = section(text, "Subcommands")
        found.append((words, options, below))
        left += [[*words, word] for word in below]
    return found


class Completion(Case):
    def setUp(self):
        super().setUp()
        self.penstock("manual", self.folder)
        self.bash = self.folder / "bash-completion/completions/penstock"
        self.zsh = self.folder / "zsh/site-functions/_penstock"

    def completed(self, line):
        program = BASH.format(script=self.bash, line=line, point=len(line))
        environment = clean_environment()
        environment["PATH"] = f"{PENSTOCK.rsplit('/', 1)[0]}:{environment['PATH']}"
        done = subprocess.run(["bash", "--norc", "-c", program], capture_output=True, text=True, cwd=self.folder,
                              env=environment, check=True)
        self.assertEqual(done.stderr, "", line)
        return done.stdout.split()

    def test_each_option_is_in_all(self):
        walked = commands()
        self.assertGreaterEqual(len(walked), 16)
        for words, options, below in walked:
            line = " ".join(["penstock", *words])
            self.assertIn("--help", options, line)
            page = (self.folder / "man/man1" / f"{line.replace(' ', '-')}.1").read_text()
            tags = set(re.findall(r"\\fB([^\\]*(?:\\-[^\\]*)*)\\fR", page))
            self.assertLessEqual(set(options + below), {tag.replace("\\-", "-") for tag in tags}, line)
            self.assertEqual(sorted(self.completed(f"{line} -")), sorted(options), line)
            self.assertLessEqual(set(below), set(self.completed(f"{line} ")), line)

    def test_no_page_is_of_nothing(self):
        pages = {path.stem for path in (self.folder / "man/man1").iterdir()}
        self.assertEqual(pages, {"-".join(["penstock", *words]) for words, _, _ in commands()})

    def test_zsh_has_them_too(self):
        if shutil.which("zsh") is None:
            self.skipTest("zsh is absent: ci/install.sh test")
        for words, options, below in commands():
            name = "_" + "_".join(["penstock", *words])
            program = ZSH.format(script=self.zsh, call=f"state=word; {name}")
            done = subprocess.run(["zsh", "-f", "-c", program], capture_output=True, text=True, env=clean_environment())
            self.assertEqual(done.stderr, "", name)
            told = {re.match(r"\*?(-[\w-]+)", line).group(1) for line in done.stdout.splitlines()
                    if re.match(r"\*?--?\w", line)} - {"-C", "-s"}
            self.assertEqual(told, set(options), name)
            text = self.zsh.read_text()
            for word in below:
                self.assertIn(f"{word}) {name}_{word} ", text)

    def test_values(self):
        self.assertEqual(self.completed("penstock pool create --mode s"), ["software", "simulated"])
        self.assertEqual(self.completed("penstock pool create --mode=h"), ["hardware"])
        self.assertEqual(self.completed("penstock completion "), ["bash", "zsh"])
        self.assertEqual(self.completed("penstock d"), ["doctor"])
        self.assertEqual(self.completed("penstock env --mpi i"), ["intel"])
        self.assertEqual(self.completed("penstock bench run pt2pt co"), ["coherence", "collectives"])
        self.assertEqual(self.completed("penstock bench compare --a"), ["--all"])
        (self.folder / "table").touch()
        self.assertEqual(self.completed("penstock bench tune --import ta"), ["table"])
        self.assertIn("table", self.completed("penstock run -n 2 -- ./program ta"))
        self.assertNotIn("--json", self.completed("penstock run -n 2 ./program --j"))

    def test_pools(self):
        spec = self.pool("32M")
        for line in ("penstock ps ", "penstock run -n 2 --pool ", "penstock doctor "):
            self.assertIn(spec, self.completed(line))
        # Bash splits the word at its colon, and appends completions after it.
        self.assertEqual(self.completed(f"penstock pool rm {spec[:-1]}"), [spec.removeprefix("shm:")])

    def test_pages_are_sound(self):
        if shutil.which("man") is None:
            self.skipTest("man is absent")
        for page in (self.folder / "man/man1").iterdir():
            done = subprocess.run(["man", "--warnings=w", "-l", "-Tutf8", page], capture_output=True, text=True,
                                  env={**clean_environment(), "MANWIDTH": "100", "LC_ALL": "C.UTF-8"})
            self.assertEqual((done.returncode, done.stderr), (0, ""), page)
            self.assertIn("EXIT STATUS", re.sub(r"\x1b\[\d+m|.\x08", "", done.stdout))

    def test_statuses_are_those_of_the_documentation(self):
        page = (self.folder / "man/man1/penstock.1").read_text().replace("\\-", "-")
        statuses = re.findall(r"\.TP\n\\fB(.+)\\fR\n(.+)\n", page.split(".SH EXIT STATUS\n")[1].split(".SH ")[0])
        self.assertEqual([value for value, _ in statuses], ["0", "1", "2", "128+N", "other"])
        promised = (SOURCE / "docs/command-line.md").read_text().replace("`", "")
        for value, meaning in statuses:
            self.assertIn(f"| {value} | {meaning} |", promised)

    def test_the_command_prints_the_same(self):
        self.assertEqual(self.penstock("completion", "bash").stdout, self.bash.read_text())
        self.assertEqual(self.penstock("completion", "zsh").stdout, self.zsh.read_text())
        self.assertIn("is none of bash, zsh", self.penstock("completion", "fish", status=2).stderr)
        self.refused("manual", "/proc/nowhere", says="cannot write /proc/nowhere/man/man1/penstock.1")


if __name__ == "__main__":
    unittest.main()
