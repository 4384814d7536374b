"""For every option of every command, an invalid value gives exit status 2, and the command does nothing."""

import re
import unittest

from completion_test import help_of, section
from support import PYTHON, Case, clean_environment

NUMBERS = ("nan", "inf", "-inf", "1e999", "-1", "99999999999999999999999", "0x10")
WHOLE = ("1.5", "18446744073709551616")
SIZES = ("nan", "inf", "-1", "1e3", "99999999999999999999G", "lots", "16777215T", "9223372036854775808", "9223372036854775807")
CHOICE = ("nonsense",)
# Other arguments that a command needs before it checks the option.
NEEDED = {"run": ["-n", "2", "--", "true"], "pool create": ["shm:none-of-the-tests"],
          "pool rm": ["shm:none-of-the-tests"], "pool gc": ["shm:none-of-the-tests"],
          "doctor coherence": ["shm:none-of-the-tests"], "switch": ["shm:none-of-the-tests"],
          "timeline": ["/nowhere"], "env": ["--mpi", "mpich", "--pool", "shm:none-of-the-tests"]}


def ranges(text):
    """The ranges of options, as --help states them: {"--nodes": ("1", "1024")}."""
    found = {}
    for row in re.split(r"\n(?=  -)", text):
        bounds = re.search(r"\((\S+) - (\S+)\)", " ".join(row.split()))
        for name in re.findall(r"(--[\w-]+)", row.strip().split("  ")[0]) if bounds else ():
            found[name] = bounds.groups()
    return found


def commands(words=()):
    """All commands that --help shows: their words, and the name and value of each option that takes one: ("--nodes", "N")."""
    text = help_of(words)
    rows = (re.fullmatch(r"(?:.*, )?(--[\w-]+)[ =](\S+)", row.replace("[=", " [=")) for row in section(text, "Options"))
    yield words, [(row[1], row[2]) for row in rows if row]
    for name in section(text, "Subcommands"):
        yield from commands((*words, name))


def wrong_values(option, kind):
    if kind == "N":
        return NUMBERS + WHOLE
    if kind in ("X", "SECONDS", "[=SECONDS]"):
        return NUMBERS
    if kind in ("SIZE", "N,..."):
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

    def test_an_empty_value_is_status_2(self):
        python = clean_environment(PENSTOCK_PYTHON=PYTHON)
        for words, options in commands():
            needed = NEEDED.get(" ".join(words), [])
            for option, _ in options:
                for empty in ([f"{option}="], [option, ""]):
                    with self.subTest(command=" ".join(words), words=empty):
                        done = self.penstock(*words, *empty, *needed, status=2, environment=python)
                        self.assertRegex(done.stderr, r"penstock: error: .*(is empty|is no number)")
        for words in (["pool", "info"], ["pool", "ls"], ["pool", "rm"], ["pool", "gc"], ["pool", "create", "--size", "64M"], ["ps"],
                      ["ps", "--watch"], ["switch"], ["doctor"], ["doctor", "coherence"], ["timeline"]):
            self.refused(*words, "", says="is empty: ", status=2)

    def test_number_beyond_range_is_status_2(self):
        for words, options in commands():
            if words[:2] == ("bench", "run"):  # Python's, whose --help states none
                continue
            stated = ranges(help_of(words))
            needed = [word for word in NEEDED.get(" ".join(words), []) if word != "-n"]
            for option, kind in options:
                if kind not in ("N", "X", "SECONDS", "[=SECONDS]"):
                    continue
                with self.subTest(command=" ".join(words), option=option):
                    self.assertIn(option, stated)
                    beyond = (str(int(float(stated[option][1])) + 1), "4294967296", "2147483648")
                    for value in beyond[:1 if float(stated[option][1]) > 2 ** 31 else 3]:
                        said = self.penstock(*words, f"{option}={value}", *needed, status=2).stderr
                        self.assertIn(f"Value {value} not in range", said)

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
        for name, value in (("PENSTOCK_TIMEOUT_MS", "nan"), ("PENSTOCK_LEASE_MS", "99999999999999999999"), ("PENSTOCK_REQUIRE", "maybe"),
                            ("PENSTOCK_SPIN", "-1"), ("PENSTOCK_MODE", "hard"), ("PENSTOCK_LOG", "loud"), ("PENSTOCK_FLUSH", "clflsh"),
                            ("PENSTOCK_ISA", "avx"), ("PENSTOCK_WINDOW_MODEL", "x"), ("PENSTOCK_NCCL_MEMORY", "x")):
            for words in (["run", "-n", "2", "--", "true"], ["pool", "info", "shm:none-of-the-tests"], ["bench", "run", "coherence"]):
                self.refused(*words, says=f"{name} is '{value}'", status=2, environment=clean_environment(**{name: value}))
        for name, value in (("PENSTOCK_NODE", "65536"), ("PENSTOCK_NODES", "2147483648"), ("PENSTOCK_UNEXPECTED_BYTES", "1K"), ("PENSTOCK_SIZE", "8388608T"),
                            ("PENSTOCK_GPU_FUSED_BYTES", "1G"), ("PENSTOCK_TIMEOUT_MS", "0")):
            self.refused("ps", says=f"{name} is {value}; it must be a number", status=2, environment=clean_environment(**{name: value}))
        for value in ("cell=1K", "cells=7", "first_lines=2K", "lines=16"):
            self.refused("ps", says="PENSTOCK_CHANNELS has ", status=2, environment=clean_environment(PENSTOCK_CHANNELS=value))
        done = self.penstock("doctor", status=None, environment=clean_environment(PENSTOCK_LEASE_MS="0"))
        self.assertIn("PENSTOCK_LEASE_MS is 0; it must be a number", done.stdout)

    def test_missing_pool_or_file_is_status_1(self):
        for words in (["pool", "info", "shm:none-of-the-tests"], ["run", "-n", "2", "--", "no-such-program"],
                      ["model", "scaling", "--replay", "/nowhere"], ["bench", "tune", "--pool", "shm:none-of-the-tests", "--print"],
                      ["timeline", "/nowhere"], ["timeline", "/nowhere", "--output", "/nowhere/a.svg"]):
            with self.subTest(words=words):
                self.penstock(*words, status=1)


if __name__ == "__main__":
    unittest.main()
