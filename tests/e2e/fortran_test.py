"""libpenstock-mpi.so under Fortran programs, with each Fortran interface of an MPI."""

import os
import re
import subprocess
import unittest

from support import OTHER_VENVS, PROGRAMS, WINDOW_LIBRARY, Case, clean_environment

GFORTRAN = "/usr/bin/gfortran"
IN_POOL = "a window of 2 ranks lies in the pool"


class EachMpi(Case):
    """Tests for every MPI; each class below names one."""

    compiler = mpiexec = None
    options = ()
    environment = {}

    def setUp(self):
        super().setUp()
        for needed in (GFORTRAN, self.compiler, self.mpiexec):
            if not os.access(needed, os.X_OK):
                self.skipTest(f"{needed} is absent: ci/install.sh mpis")

    def compiled(self, interface, *options, source="window.F90"):
        program = self.folder / source.split(".")[0]
        # With mpif.h buffers have any type, which makes compilers warn.
        done = subprocess.run([self.compiler, "-w", "-fallow-argument-mismatch", f"-D{interface}", *options,
                               *self.options, PROGRAMS / source, "-o", program, f"-J{self.folder}"],
                              capture_output=True, text=True, env=clean_environment(**self.environment))
        self.assertEqual(done.returncode, 0, done.stderr)
        return program

    def run_ranks(self, *command, launched=(), ranks=2):
        return self.penstock("run", "--mpiexec", self.mpiexec, "-n", ranks, "--nodes", "2", *launched, "--",
                             "env", "PENSTOCK_LOG=info", *command)

    def windows_lie_in_the_pool(self, interface, *options, windows=3):
        program = self.compiled(interface, *options)
        for arguments in ((), ("threads",)):
            done = self.run_ranks(program, *arguments)
            self.assertIn("window: ok: 2 ranks", done.stdout, done.stderr)
            self.assertEqual(done.stderr.count(IN_POOL), 2 * windows, done.stderr)


    def collectives_go_through_the_pool(self, interface, *options):
        with self.subTest(interface=interface, options=options):
            program = self.compiled(interface, *options, source="collectives.F90")
            for ranks in (2, 3):
                done = self.run_ranks(program, ranks=ranks)
                self.assertEqual(done.stdout.count("collectives: ok"), ranks, done.stdout + done.stderr)
                self.assertIn(f"collectives of {ranks} ranks go through the pool", done.stderr)


TOOL = """#include <stdio.h>
static int seen;
void p{entry}(int* assert, int* win, int* ierror);
void {entry}(int* assert, int* win, int* ierror) {{
  ++seen;
  p{entry}(assert, win, ierror);
}}
__attribute__((destructor)) static void tell(void) {{
  if (seen != 0) printf("tool: %d fences\\n", seen);
}}
"""


class DebianOpenMpi(EachMpi):
    compiler, mpiexec = "/usr/bin/mpif90.openmpi", "/usr/bin/mpiexec.openmpi"

    def test_mpif_h(self):
        self.windows_lie_in_the_pool("MPIF_H")

    def test_use_mpi(self):
        self.windows_lie_in_the_pool("USE_MPI")

    def test_use_mpi_f08(self):
        self.windows_lie_in_the_pool("USE_MPI_F08")

    def test_collectives(self):
        for interface in ("MPIF_H", "USE_MPI", "USE_MPI_F08"):
            self.collectives_go_through_the_pool(interface)

    def test_fortran_tools_see_their_calls(self):
        for interface, entry in (("MPIF_H", "mpi_win_fence_"), ("USE_MPI_F08", "mpi_win_fence_f08_")):
            tool, source = self.folder / f"lib{interface}.so", self.folder / "tool.c"
            source.write_text(TOOL.format(entry=entry))
            subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", tool], check=True)
            program = self.compiled(interface)
            with_tool = f'LD_PRELOAD="$LD_PRELOAD:{tool}" exec {program}'
            alone = subprocess.run([self.mpiexec, "--oversubscribe", "-n", "2", "sh", "-c", with_tool], capture_output=True,
                                   text=True, timeout=100,
                                   env=clean_environment(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1"))
            told = []
            for done in alone, self.run_ranks("sh", "-c", with_tool):
                self.assertIn("window: ok: 2 ranks", done.stdout, done.stderr)
                told.append(re.findall(r"tool: \d+ fences", done.stdout))
            self.assertEqual(len(told[0]), 2, interface)
            self.assertEqual(told[1], told[0], interface)


class IntelMpi(EachMpi):
    """Its mpi_f08 modules are for its own compiler only; with gfortran the program names the entry points."""

    compiler = str(OTHER_VENVS["intel"] / "bin/mpif90")
    mpiexec = str(OTHER_VENVS["intel"] / "bin/mpiexec")
    environment = {"I_MPI_ROOT": OTHER_VENVS["intel"]}
    f08_without_buffers = ("Init", "Init_thread", "Finalize", "Alloc_mem", "Win_allocate", "Win_allocate_shared",
                           "Win_shared_query", "Win_free", "Win_get_attr", "Win_fence", "Win_start",
                           "Win_complete", "Win_post", "Win_wait", "Win_test", "Win_lock", "Win_unlock",
                           "Win_lock_all", "Win_unlock_all", "Win_flush", "Win_flush_all", "Win_flush_local",
                           "Win_flush_local_all", "Win_sync", "Comm_split_type")

    def setUp(self):
        super().setUp()
        major = subprocess.run([GFORTRAN, "-dumpversion"], capture_output=True, text=True).stdout.split(".")[0]
        modules = sorted((OTHER_VENVS["intel"] / "include/mpi/gfortran").glob(f"{int(major)}.*"))
        # libmpifort needs libmpi, but does not say where it is.
        self.options = ("-Wl,--no-as-needed", *(f"-I{folder}" for folder in modules))
        self.has_modules = bool(modules)

    def test_mpif_h(self):
        self.windows_lie_in_the_pool("MPIF_H")

    def test_use_mpi(self):
        if not self.has_modules:
            self.skipTest("Intel MPI has no modules for this gfortran")
        self.windows_lie_in_the_pool("USE_MPI")

    def test_collectives(self):
        self.collectives_go_through_the_pool("MPIF_H", "-DHANDLES_ARE_NUMBERS")
        self.collectives_go_through_the_pool("MPIF_H", "-DHANDLES_ARE_NUMBERS", "-DMPI_Barrier=MPI_Barrier_f08")

    def test_entry_points_of_f08(self):
        renamed = [f"-DMPI_{name}=MPI_{name}_f08" for name in self.f08_without_buffers]
        self.windows_lie_in_the_pool("MPIF_H", *renamed)

    def test_without_the_library(self):
        """Checks that the MPI's own windows fulfil the program's expectations."""
        done = self.run_ranks(self.compiled("MPIF_H"), launched=("--no-windows",))
        self.assertIn("window: ok: 2 ranks", done.stdout, done.stderr)
        self.assertNotIn(IN_POOL, done.stderr)


class DebianMpich(EachMpi):
    """MPICH 4.0, with mpi_f08 for gfortran. Built without libfabric, so messages bypass the pool."""

    compiler, mpiexec = "/usr/bin/mpif90.mpich", "/usr/bin/mpiexec.mpich"

    def setUp(self):
        if not os.access(self.compiler, os.X_OK):
            self.skipTest(f"{self.compiler} is absent: apt-get install libmpich-dev mpich gfortran")
        super().setUp()

    def run_ranks(self, *command, ranks=2):
        """Sets the pool's variables itself, since `penstock run` refuses this MPI."""
        done = subprocess.run([self.mpiexec, "-n", str(ranks), "env", f"LD_PRELOAD={WINDOW_LIBRARY}", "PENSTOCK_NODES=2",
                               f"PENSTOCK_POOL={self.pool()}", "PENSTOCK_LOG=info", *command],
                              capture_output=True, text=True, timeout=120, env=clean_environment())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def test_collectives(self):
        for interface in ("MPIF_H", "USE_MPI", "USE_MPI_F08"):
            self.collectives_go_through_the_pool(interface, "-DHANDLES_ARE_NUMBERS")

    def test_mpif_h(self):
        self.windows_lie_in_the_pool("MPIF_H")

    def test_use_mpi(self):
        self.windows_lie_in_the_pool("USE_MPI")

    def test_use_mpi_f08(self):
        self.windows_lie_in_the_pool("USE_MPI_F08", "-DLARGE_COUNTS", windows=4)


class UnknownMpi(Case):
    """Calls of an unknown MPI, and unrelated functions with similar names."""

    library_source = """#include <string.h>
int PMPI_Init(int* argc, char*** argv) { return 0; }
int PMPI_Get_library_version(char* text, int* length) {
  strcpy(text, "Strange MPI 0.1");
  *length = strlen(text);
  return 0;
}
int PMPI_Win_fence(int assert, int win) { return assert + win; }
void mpi_win_fence_(int* assert, int* win, int* ierror) { *ierror = PMPI_Win_fence(*assert, *win); }
void mpi_win_get_attr_(int* win, int* key, long* value, int* flag, int* ierror) { *value = *win - *key; }
int mpi_init(int number) { return number + 1; }
int call_own(void) { return mpi_init(41); }
"""
    program_source = """#include <stdio.h>
void mpi_win_fence_(int*, int*, int*);
void mpi_win_get_attr_(int*, int*, long*, int*, int*);
int call_own(void);
int main(void) {
  int assert = 5, win = 3, sum, none;
  long difference;
  mpi_win_fence_(&assert, &win, &sum);
  mpi_win_get_attr_(&assert, &win, &difference, &none, &none);
  printf("%d %ld %d\\n", sum, difference, call_own());
  return 0;
}
"""

    def test_is_passed_by(self):
        library, program = self.folder / "libstrange.so", self.folder / "program"
        for source, text, options in (("library.c", self.library_source, ["-shared", "-fPIC", "-o", library]),
                                      ("program.c", self.program_source,
                                       ["-o", program, library, f"-Wl,-rpath,{self.folder}"])):
            (self.folder / source).write_text(text)
            subprocess.run(["gcc", "-w", self.folder / source, *options], check=True)
        done = subprocess.run([program], capture_output=True, text=True, timeout=60,
                              env=clean_environment(LD_PRELOAD=WINDOW_LIBRARY))
        self.assertEqual((done.returncode, done.stdout), (0, "8 2 42\n"), done.stderr)
        self.assertIn("windows stay with the MPI: the MPI of this process is", done.stderr)


if __name__ == "__main__":
    unittest.main()
