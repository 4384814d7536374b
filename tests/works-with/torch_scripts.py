"""Programs of torch: a script of scripts/, whose rank 0 prints what to compare."""

import json
import re

from launchers import Failed, Program, SOURCE, Torch


class TorchScript(Program):
    launcher = Torch
    version = "2.13.0"
    script = ""
    tolerance = 1e-5

    def command(self, run):
        return [SOURCE / "tests/works-with/scripts" / self.script, *self.arguments(run)]

    def arguments(self, run):
        return []

    def result(self, run):
        said = re.search(r"RESULT (.*)", run.output)
        if not said:
            raise Failed("rank 0 said no result", run.output)
        return json.loads(said.group(1))
