"""The report on a failed job names the rank that aborted, raised or crashed first, and how it ended."""

import os
import re
import signal
import subprocess
import unittest
from pathlib import Path

from support import OTHER_VENVS, PROGRAMS, PYTHON, VENV, Case, clean_environment, job_processes_of


class Blame(Case):
    def compiled(self, venv=VENV):
        program = self.folder / f"fails-{venv.name}"
        subprocess.run([venv / "bin/mpicc", "-Wall", "-Wextra", PROGRAMS / "fails.c", "-o", program], check=True,
                       env=clean_environment(I_MPI_ROOT=venv))
        return program

    def blamed(self, *command, venv=VENV, runs=3, others=0):
        """The lines of several runs that name rank 2. Launcher and ranks race, so at most `others` runs may name another
        rank."""
        lines = [self.verdict(*command, venv=venv) for _ in range(runs)]
        of_two = [line for line in lines if re.match(r"penstock run: rank 2 \(pid \d+, emulated node 1\) ", line)]
        self.assertGreaterEqual(len(of_two), runs - others, lines)
        return of_two

    def verdict(self, *command, venv):
        done = self.penstock("run", "--mpiexec", venv / "bin/mpiexec", "-n", "4", "--nodes", "2", "--", *command,
                             status=None, start_new_session=True)
        self.assertNotEqual(done.returncode, 0)
        # A launcher that was killed may have left an incomplete line.
        lines = [line[line.find("penstock run:"):] for line in done.stderr.splitlines() if "the job was ended" in line]
        self.assertEqual(len(lines), 1, done.stderr)
        return lines[0]

    def test_abort(self):
        program = self.compiled()
        for line in self.blamed(program, "abort", runs=8):
            self.assertIn("called MPI_Abort with code 7", line)

    def test_signals_and_statuses(self):
        program = self.compiled()
        for how, says in (("segfault", "killed by signal 11"), ("exit", "exited with status 5 without finalizing MPI"),
                          ("killed", "killed by signal 9")):
            for line in self.blamed(program, how):
                self.assertIn(says, line)

    def test_errors_that_mpi_ends_the_job_for(self):
        """This launcher may kill waiting ranks before the failed one."""
        program = self.compiled()
        for how in "error", "truncated":
            for line in self.blamed(program, how, runs=4):
                self.assertIn("met an error that MPI ended the job for", line)
        # Errors that return to the program are the program's responsibility.
        for line in self.blamed(program, "returned"):
            self.assertIn("exited with status 6", line)

    def test_python_exceptions(self):
        program = self.folder / "raises.py"
        program.write_text("from mpi4py import MPI\nc = MPI.COMM_WORLD\nc.Barrier()\n"
                           "if c.rank == 2: raise ValueError('boom')\nc.Barrier()\n")
        # On busy cores the exception of a waiting rank may end the job first: 4 of 400 runs.
        for line in self.blamed(PYTHON, program, runs=8, others=2):
            self.assertRegex(line, "exited with status 1|left MPI while others waited for it")
        for line in self.blamed(PYTHON, "-m", "mpi4py", program):
            self.assertIn("called MPI_Abort with code 1", line)

    def test_exit_without_finalize_is_only_a_warning(self):
        """The status is the launcher's. One rank only, because a launcher may kill the others."""
        program = self.compiled()
        for options in ((), ("--no-windows",)):
            done = self.penstock("run", "-n", "1", *options, "--", program, "unfinalized")
            self.assertRegex(done.stderr, r"penstock run: warn: rank 0 \(pid \d+, emulated node 0\) exited without MPI_Finalize")
            self.assertNotIn("the job was ended", done.stderr)

    def test_other_mpis(self):
        for venv in OTHER_VENVS.values():
            if not (venv / "bin/mpiexec").exists():
                self.skipTest(f"no {venv}: ci/install.sh mpis makes it")
            program = self.compiled(venv)
            for line in self.blamed(program, "abort", venv=venv):
                self.assertIn("called MPI_Abort with code 7", line)
            for line in self.blamed(program, "segfault", venv=venv):
                self.assertRegex(line, "killed by signal 11|exited with status")

    def test_the_launcher_itself(self):
        job = self.start("run", "-n", "2", "--nodes", "2", "--", PYTHON, PROGRAMS / "wait.py")
        self.assertIn("all there", job.stdout.readline())
        for pid in job_processes_of(job.pid):
            if Path(f"/proc/{pid}/comm").read_text().startswith("mpiexec"):
                os.kill(pid, signal.SIGKILL)
        output, _ = job.communicate(timeout=60)
        self.assertRegex(output, r"penstock run: \S*mpiexec\S* was killed by signal 9 \(Killed\); the job was ended")
        self.assertNotIn("rank 0 (", output)

    def test_what_hides_no_cause(self):
        """If no process attached, the launcher adds nothing to the program's output."""
        done = self.penstock("run", "-n", "2", "--", "sh", "-c", "echo no such luck >&2; exit 3", status=None)
        self.assertIn("no such luck", done.stderr)
        self.assertIn("before a process of the job had attached", done.stderr)
        self.assertNotIn("is no MPI program", done.stderr)


if __name__ == "__main__":
    unittest.main()
