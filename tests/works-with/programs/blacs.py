import re
import shutil
from pathlib import Path

from launchers import DebianOpenMpi, Program as Base

TESTS = Path("/usr/lib/x86_64-linux-gnu/scalapack/openmpi-tests")


class Program(Base):
    title, launcher, debian = "BLACS", DebianOpenMpi, ("scalapack-mpi-test=2.2.1-2+b1",)
    case = "its tester xCbtest: point to point, broadcasts and combinations; how many tests passed"

    def command(self, run):
        for data in TESTS.glob("BLACS/*.dat"):
            shutil.copy(data, run.folder)
        return [TESTS / "xCbtest"]

    def result(self, run):
        text = run.output
        return {"passed": len(re.findall(r"passed|PASSED", text)), "failed": len(re.findall(r"FAILED|failed for", text)), "done": "DONE BLACS" in text or "tests" in text}
