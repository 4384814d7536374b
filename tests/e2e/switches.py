"""Switches that compute, for the tests of whoever uses them."""

import json
import signal

from support import Case

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
        out, _ = switch.communicate(timeout=30)
        self.assertEqual(switch.returncode, 0, out)
        return json.loads(out[out.index("{"):])
