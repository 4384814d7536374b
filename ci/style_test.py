#!/usr/bin/env python3
"""Each style rule finds what it is there to find, and lets the rest pass."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "docs"))
import check_docs
import citations
import layers
import style


def found(path, text):
    return [complaint for _, complaint in style.complaints(Path(path), text)]


class StyleTest(unittest.TestCase):
    def assert_complaint(self, path, text, part):
        self.assertTrue(any(part in c for c in found(path, text)), f"{path}: {found(path, text)}")

    def test_clean_code_passes(self):
        text = '// _mm_clflush is spoken of here\n#include "base/env.hpp"\nint f() {\n  return 1;\n}\n'
        self.assertEqual(found("src/pool/a.cpp", text), [])

    def test_retired_words(self):
        self.assert_complaint("src/pool/a.cpp", "void settle();\n", "settle was replaced")
        self.assert_complaint("src/pool/a.hpp", "constexpr int most_nodes = 4;\n", "most_nodes was replaced")
        self.assertEqual(found("src/pool/a.cpp", "int almost_all; // most_ of all\n"), [])

    def test_long_function(self):
        body = "int f() {\n" + "  g();\n" * 69 + "}\n"
        self.assert_complaint("src/pool/a.cpp", body, "function of 71 lines")
        self.assertEqual(found("src/pool/a.cpp", body.replace("  g();\n", "", 1)), [])

    def test_long_function_in_class_and_namespace(self):
        body = "namespace a {\nstruct B {\n  int f() const {\n" + "    g();\n" * 70 + "  }\n};\n}\n"
        self.assert_complaint("src/pool/a.cpp", body, "function of 72 lines")

    def test_long_namespace_and_table_are_no_functions(self):
        table = "namespace a {\nconst int t[] = {\n" + "  1,\n" * 100 + "};\n}\n"
        self.assertEqual(found("src/pool/a.cpp", table), [])
        struct = "struct alignas(64) A {\n" + "  int a;\n" * 100 + "};\n"
        self.assertEqual(found("src/pool/a.hpp", struct), [])

    def test_long_file(self):
        self.assert_complaint("src/pool/a.cpp", "int a;\n" * 601, "601 lines")

    def test_long_python_function(self):
        self.assert_complaint("ci/a.py", "def f():\n" + "    g()\n" * 70, "function of 71 lines")

    def test_instructions_outside_arch(self):
        for text in ("void f() { _mm_clwb(p); }\n", "void f() { _mm_stream_si64(p, 1); }\n",
                     "void f() { _mm_sfence(); }\n", 'void f() { asm volatile("sfence" ::: "memory"); }\n'):
            self.assert_complaint("src/pool/a.cpp", text, "outside src/arch")
            self.assertEqual(found("src/arch/x86_64/a.cpp", text), [])
        self.assertEqual(found("src/pool/a.cpp", 'void f() { asm volatile("" ::: "memory"); }\n'), [])

    def test_include_direction(self):
        self.assert_complaint("src/pool/a.cpp", '#include "arena/a.hpp"\n', "must not include")
        self.assert_complaint("src/sync/a.cpp", '#include "pool/pool.hpp"\n', "must not include")
        self.assert_complaint("src/persist/a.cpp", '#include "litmus/verdict.hpp"\n', "DEPS of src/persist")
        self.assert_complaint("src/pool/a.cpp", '#include "../arena/a.hpp"\n', "by its folder's name")
        self.assertEqual(found("src/arena/a.cpp", '#include "pool/pool.hpp"\n'), [])

    def test_link_direction(self):
        text = "penstock_module(sync SOURCES a.cpp ALONE a.cpp  # DEPS pool\n  DEPS coherence arena LIBS x)\n"
        self.assertEqual(layers.modules_of(text), {"sync": ["coherence", "arena"]})
        self.assert_complaint("src/sync/CMakeLists.txt", text, "sync must not use arena, which uses sync")
        self.assert_complaint("src/sync/CMakeLists.txt", text.replace("arena", "sync"), "must not use sync")
        self.assert_complaint("src/sync/CMakeLists.txt", text.replace("arena", "areno"), "no CMakeLists.txt has a module areno")
        self.assertEqual(found("src/sync/CMakeLists.txt", text.replace(" arena", "")), [])

    def test_architecture_page(self):
        page = "```\nplugins/x   src/top\n   src/low  words\n```\n\n**top.** Uses low.\n\n**low.** Text.\n"
        check = lambda text, **modules: [complaint for _, complaint in layers.check_page(text, list(modules), modules)]
        self.assertEqual(check(page, top=["low"], low=[]), [])
        self.assertIn("src/low below src/top, which the DEPS of low name", check(page, top=[], low=["top"])[0])
        self.assertIn("no line for src/new", check(page, top=["low"], low=[], new=[])[0])
        self.assertIn("no paragraph begins with **new.**", check(page, top=["low"], low=[], new=[])[1])
        self.assertIn("src/low, which has no CMakeLists.txt", check(page, top=[])[0])
        self.assertEqual(len(check(page.replace("**low", "low"), top=["low"], low=[])), 1)

    def cited(self, text, path="src/pool/a.cpp"):
        code = {Path("src/pool/a.cpp"): "void write() {}\n", Path("src/pool/b.hpp"): "class Ring {\n  void take();\n};\n"}
        return [what for _, what in citations.check(Path(path), text, citations.definitions(code), ["cMPI", "MPI 4.1"])]

    def test_the_other_side_exists(self):
        for text in ("f();  // pairs with write()\n", "// Pairs\n  // with Ring::take, which waits. Not so f().\n", "// pairs of words\n",
                     'auto a = "pairs with nothing";\n'):
            self.assertEqual(self.cited(text), [])
        self.assertIn("name the other side", self.cited("f();  // pairs with the reader\n")[0])
        self.assertIn("Ring::put: no code has that", self.cited("/* pairs with Ring::put */\n")[0])
        self.assertIn("read(): no code in src/pool", self.cited("// pairs with write(), read()\n")[0])
        self.assertIn("write(): no code in src/arena", self.cited("// pairs with write()\n", "src/arena/a.cpp")[0])

    def test_sources_exist(self):
        for text in ("// Source: cMPI, section 3.4; docs/memory-model.md, \"Modes\" and \"Rules\". More.\n", "/* Words. Sources:\n * MPI 4.1. */\n"):
            self.assertEqual(self.cited(text), [])
        self.assertEqual(self.cited('"""Text. Source:\ncMPI.\n"""\n', "ci/a.py"), [])
        self.assertIn("add the work to docs/sources.md", self.cited("// Source: cMPI; hearsay. More.\n")[0])
        self.assertIn("gpu.md: there is no such file", self.cited("/// Text. Source: cMPI;\n/// gpu.md, \"CUDA\".\n")[0])
        self.assertIn("no \"Mode of\"", self.cited("// Source: docs/memory-model.md, \"Mode of\".\n")[0])

    def test_figures_are_those_of_the_page(self):
        readme = check_docs.ROOT / "README.md"
        text = readme.read_text()
        wrong = lambda text: [what for _, what in check_docs.check_figures(readme, text)]
        rows = [line for line in text.split("\n") if line.startswith("| message, 8 B")]
        first, second = check_docs.NUMBER.findall(rows[0])[:2]
        self.assertEqual(wrong(text), [])
        for changed in (rows[0].replace(first, "0.001"), rows[0].replace("8 B", "16 B"),
                        rows[0].replace(first, "X").replace(second, first).replace("X", second)):
            self.assertIn("copy them from there", wrong(text.replace(rows[0], changed))[0])
        self.assertIn("needs <!-- figures", wrong(text.replace("<!-- figures", "<!--"))[0])
        page = check_docs.FIGURES.search(text).group(1)
        self.assertIn("no row of no/page.md", wrong(text.replace(page, "no/page.md", 1))[0])

    def test_hard_coded_pool(self):
        for path in ('"/dev/dax0.0"', '"/tmp/pool"', '"/dev/shm/mine"'):
            self.assert_complaint("src/pool/a.cpp", f"auto p = {path};\n", "user's to choose")
        self.assertEqual(found("src/pool/a.cpp", 'auto p = "/dev/shm";\n'), [])

    def test_exit_in_library(self):
        self.assert_complaint("src/pool/a.cpp", "void f() { exit(1); }\n", "does not end")
        self.assertEqual(found("tools/a.cpp", "void f() { exit(1); }\n"), [])

    def test_variables_by_the_table(self):
        self.assert_complaint("plugins/ofi/a.cpp", 'auto a = getenv("PENSTOCK_POOL");\n', "base/env")

    def test_text(self):
        self.assert_complaint("docs/a.md", "this is " + "TO" + "DO\n", "unfinished")
        self.assert_complaint("docs/a.md", "blank \n", "blanks")
        self.assert_complaint("docs/a.md", "no end", "newline")
        self.assert_complaint("src/pool/CamelCase.cpp", "int a;\n", "snake_case")


if __name__ == "__main__":
    unittest.main()
