"""Every option of every command: a value that is wrong by itself ends it with status 2, and nothing is done."""

import re
import unittest

from completion_test import help_of, section
from support import PYTHON, Case, clean_environment

NUMBERS = ("nan", "inf", "-inf", "1e999", "-1", "99999999999999999999999", "0x10", "")
WHOLE = ("1.5", "18446744073709551616")
SIZES = ("nan", "inf", "-1", "1e3", "99999999999999999999G", "lots")
CHOICE = ("nonsense", "")
# Other words that a command needs before it looks at the option.
NEEDED = {"run": ["-n", "2", "--", "true"], "pool create": ["shm:none-of-the-tests"],
          "pool rm": ["shm:none-of-the-tests"], "pool gc": ["shm:none-of-the-tests"],
          "doctor coherence": ["shm:none-of-the-tests"], "switch": ["shm:none-of-the-tests"],
          "timeline": ["/nowhere"], "env": ["--mpi", "mpich", "--pool", "shm:none-of-the-tests"]}


def commands(words=()):
    """All commands that --help shows: their words, and the name and value of each option that takes one: ("--nodes", "N")."""
    text = help_of(words)
    rows = (re.fullmatch(r"(?:.*, )?(--[\w-]+)[ =]?(\S+)", row.replace("[=", " [=")) for row in section(text, "Options"))
    yield words, [(row[1], row[2]) for row in rows if row]
    for name in section(text, "Subcommands"):
        yield from commands((*words, name))


def wrong_values(option, kind):
    if kind == "N":
        return NUMBERS + WHOLE
    if kind in ("X", "SECONDS", "[=SECONDS]"):
        return NUMBERS
    if kind == "SIZE" or option == "--sizes":
        return SIZES
    return CHOICE if "|" in kind else ()


class OptionValues(Case):
    def test_a_wrong_value_is_status_2(self):
        python = clean_environment(PENSTOCK_PYTHON=PYTHON)
        tried = set()
        for words, options in commands():
            needed = NEEDED.get(" ".join(words), [])
            for option, kind in options:
                for value in wrong_values(option, kind):
                    with self.subTest(command=" ".join(words), option=option, value=value):
                        tried.add((words, option))
                        done = self.penstock(*words, f"{option}={value}", *needed, status=2, environment=python)
                        self.assertIn("penstock: error:", done.stderr)
                        self.assertEqual(done.stdout if words[:1] != ("env",) else "", "")
        for known in ((("ps",), "--watch"), (("ps",), "--traffic"), (("run",), "--nodes"), (("run",), "--mode"), (("env",), "--mpi"),
                      (("model", "scaling"), "--gflops"), (("switch",), "--missing-after"), (("pool", "create"), "--size"),
                      (("bench", "run"), "--timeout"), (("bench", "run"), "--sizes"), (("bench", "limits"), "--rounds")):
            self.assertIn(known, tried)

    def test_an_unknown_name_is_status_2(self):
        spec = "shm:none-of-the-tests"
        for words in (["model", "collectives", "--platform", "x"], ["model", "collectives", "--set", "device=nan"],
                      ["model", "collectives", "--collective", "x"], ["model", "scaling", "--program", "x"],
                      ["model", "scaling", "--class", "x"], ["model", "scaling", "--set", "x"], ["run", "-n", "0", "--", "true"],
                      ["run", "-n", "2", "--nodes", "3", "--", "true"], ["pool", "create", spec, "--size", "64M", "--group", "x x"],
                      ["pool", "create", spec, "--size", "1"], ["pool", "info", "shm:"], ["bench", "limits", "--mode", "x"],
                      ["bench", "limits", "--size", "-1"], ["bench", "stream", "--threads", "nan"],
                      ["bench", "stream", "--cores", "x"], ["bench", "stream", "--target", "x"], ["bench", "run", "x"]):
            with self.subTest(words=words):
                self.penstock(*words, status=2, environment=clean_environment(PENSTOCK_PYTHON=PYTHON))

    def test_a_wrong_variable_is_status_2(self):
        for name, value in (("PENSTOCK_TIMEOUT_MS", "nan"), ("PENSTOCK_LEASE_MS", "99999999999999999999"),
                            ("PENSTOCK_REQUIRE", "maybe"), ("PENSTOCK_SPIN", "-1")):
            self.refused("run", "-n", "2", "--", "true", says=f"{name} is '{value}'", status=2,
                         environment=clean_environment(**{name: value}))

    def test_a_missing_pool_or_file_is_status_1(self):
        for words in (["pool", "info", "shm:none-of-the-tests"], ["run", "-n", "2", "--", "no-such-program"],
                      ["model", "scaling", "--replay", "/nowhere"], ["bench", "tune", "--pool", "shm:none-of-the-tests", "--print"],
                      ["timeline", "/nowhere"], ["timeline", "/nowhere", "--output", "/nowhere/a.svg"]):
            with self.subTest(words=words):
                self.penstock(*words, status=1)


if __name__ == "__main__":
    unittest.main()
