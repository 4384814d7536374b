"""Python programs of MPI: a script of scripts/, whose rank 0 prints what to compare."""

import json
import re

from launchers import SOURCE, Failed, Program


class MpiScript(Program):
    script = ""

    def command(self, run):
        return [run.python, SOURCE / "tests/works-with/scripts" / self.script]

    def result(self, run):
        said = re.search(r"RESULT (.*)", run.output)
        if not said:
            raise Failed("rank 0 said no result", run.output)
        return json.loads(said.group(1))
