import re

from launchers import DebianOpenMpi, Program as Base

EXAMPLE = "/usr/share/doc/hpcc/examples/_hpccinf.txt"


class Program(Base):
    title, launcher, debian = "HPC Challenge", DebianOpenMpi, ("hpcc=1.5.0-3",)
    case = "HPL, PTRANS, RandomAccess, FFT and the rest on 120 unknowns; their own checks"

    def command(self, run):
        lines = open(EXAMPLE, encoding="utf8").read().split("\n")
        for number, value in ((5, 120), (7, 16), (10, 1), (11, run.ranks), (33, 0), (35, 0)):
            lines[number] = f"{value} {lines[number]}"
        run.write("hpccinf.txt", "\n".join(lines))
        return ["hpcc"]

    def result(self, run):
        text = run.read("hpccoutf.txt")
        facts = dict(re.findall(r"^(\w+)=(\S+)$", text, re.M))
        wanted = ("Success", "CommWorldProcs", "HPL_N", "PTRANS_residual", "MPIRandomAccess_ErrorsFraction", "MPIRandomAccess_LCG_ErrorsFraction")
        return {**{name: facts[name] for name in wanted}, "passed": len(re.findall(r"PASSED", text)), "failed": len(re.findall(r"FAILED", text)),
                "FFT's error": float(facts["MPIFFT_maxErr"]) < 1e-12}
