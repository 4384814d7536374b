"""Programs whose ranks do not share one MPI_COMM_WORLD: sessions and spawned ranks, under each MPI."""

import subprocess
import unittest

from support import OTHER_VENVS, PROGRAMS, VENV, Case, clean_environment


class Dynamic(Case):
    def each(self, *left_out):
        venvs = {"mpich": VENV, **OTHER_VENVS}
        for name, venv in venvs.items():
            if name in left_out:
                continue
            if not (venv / "bin/mpiexec").exists():
                self.skipTest(f"no {venv}: ci/install.sh mpis makes it")
            with self.subTest(mpi=name):
                yield venv

    def run_ranks(self, venv, ranks, *command):
        return self.penstock("run", "--mpiexec", venv / "bin/mpiexec", "-n", ranks, "--", *command)

    def test_windows_of_sessions(self):
        for venv in self.each():
            program = self.folder / f"sessions-{venv.name}"
            subprocess.run([venv / "bin/mpicc", "-Wall", "-Wextra", PROGRAMS / "sessions.c", "-o", program],
                           check=True, env=clean_environment(I_MPI_ROOT=venv))
            # Open MPI 5.0.11 and Intel MPI 2021.18 have one session a process, over every transport
            rounds = 2 if venv == VENV else 1
            self.assertIn("sessions: ok", self.run_ranks(venv, 4, program, rounds).stdout)

    def test_windows_of_a_session_outlive_the_world(self):
        program = self.folder / "session_and_world"
        subprocess.run([VENV / "bin/mpicc", "-Wall", "-Wextra", PROGRAMS / "session_and_world.c", "-o", program],
                       check=True, env=clean_environment())
        self.assertIn("session and world: ok", self.run_ranks(VENV, 2, program).stdout)

    def test_a_library_calls_mpi_while_it_loads(self):
        """The loading thread holds the dynamic linker's lock, which our search for the MPI needs too."""
        program, library = self.folder / "loads_in_thread", self.folder / "library.so"
        for output, options in ((program, ["-rdynamic"]), (library, ["-DLIBRARY", "-fPIC", "-shared"])):
            subprocess.run([VENV / "bin/mpicc", "-Wall", "-Wextra", *options, PROGRAMS / "loads_in_thread.c", "-o", output, "-ldl",
                            "-lpthread"], check=True, env=clean_environment())
        done = self.run_ranks(VENV, 2, program, library)
        self.assertEqual(done.stdout.count("loaded: ok"), 2, done.stderr)

    def test_spawned_ranks(self):
        for venv in self.each():
            done = self.run_ranks(venv, 2, venv / "bin/python", PROGRAMS / "spawn.py")
            self.assertIn("spawn: ok", done.stdout, done.stderr)

    def test_futures(self):
        # Intel MPI 2021.18 does not run it, over any provider of libfabric
        for venv in self.each("intel"):
            for ranks, options in ((1, []), (3, ["-m", "mpi4py.futures"])):
                done = self.run_ranks(venv, ranks, venv / "bin/python", *options, PROGRAMS / "futures.py")
                self.assertIn("futures: ok", done.stdout, done.stderr)


if __name__ == "__main__":
    unittest.main()
