"""`penstock`: the command that lies in the package."""

import os
import sys

from penstock._library import folder


def main() -> None:
    program = os.path.join(folder("bin", "penstock"), "penstock")
    os.environ.setdefault("PENSTOCK_PYTHON", sys.executable)  # where the package's own needs are installed
    os.execv(program, [program, *sys.argv[1:]])
