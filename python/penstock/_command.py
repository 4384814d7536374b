"""`penstock`: runs the command that is installed in the package."""

import os
import sys

from penstock._library import folder


def main() -> None:
    program = os.path.join(folder("bin", "penstock"), "penstock")
    os.environ.setdefault("PENSTOCK_PYTHON", sys.executable)  # the Python that has the package's dependencies
    os.execv(program, [program, *sys.argv[1:]])
