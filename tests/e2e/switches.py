"""Switches that compute, for the tests of whoever uses them."""

import json
import signal

from support import MPIEXEC, PYTHON, Case

ALWAYS = {"PENSTOCK_COLL_SWITCH": "always"}


class Switches(Case):
    def play(self, spec, *options):
        """Starts a switch and waits until it serves the pool."""
        switch = self.start("switch", spec, "--json", *options)
        said = switch.stdout.readline()
        self.assertEqual(json.loads(said)["pid"], switch.pid, said)
        return switch

    def end_of(self, switch, number=signal.SIGTERM):
        """Ends it, and gives what it says it has done."""
        switch.send_signal(number)
        out, _ = switch.communicate(timeout=100)
        self.assertEqual(switch.returncode, 0, out)
        return json.loads(out[out.index("{"):])

    def wait_for_call(self, job, number=20):
        said = ""
        while f"call {number}\n" not in said:
            line = job.stdout.readline()
            said += line
            self.assertTrue(line, said)

    def job(self, spec, ranks, nodes, *program, **more):
        return ["run", "--mpiexec", MPIEXEC, "--pool", spec, "-n", ranks, "--nodes", nodes, "--", PYTHON, "-m", "mpi4py",
                *program]

    def tree(self, spec):
        """A spine and two leaves."""
        return [self.play(spec, "--leaves", 2), *(self.play(spec, "--leaves", 2, "--leaf", leaf) for leaf in range(2))]
