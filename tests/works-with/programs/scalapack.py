import re

from launchers import DebianOpenMpi, Program as Base

DATA = """'ScaLAPACK, LU factorization'
'A small case'
'LU.out' output file name (if any)
6        device out
3        number of problems sizes
4 17 100 values of M
4 13 80  values of N
2        number of NB's
2 5      values of NB
1        number of NRHS's
3        values of NRHS
1        number of NBRHS's
2        values of NBRHS
2        number of process grids (ordered pairs of P & Q)
1 {ranks}      values of P
{ranks} 1      values of Q
1.0      threshold
T        (T or F) test condition estimation and iterative refinement
"""


class Program(Base):
    title, launcher, debian = "ScaLAPACK", DebianOpenMpi, ("scalapack-mpi-test=2.2.1-2+b1",)
    case = "its tester of LU factorization (xdlu) on two process grids; the outcome of each of its tests"
    quick = True

    def command(self, run):
        run.write("LU.dat", DATA.format(ranks=run.ranks))
        return ["/usr/lib/x86_64-linux-gnu/scalapack/openmpi-tests/xdlu"]

    def result(self, run):
        counts = dict(re.findall(r"(\d+) tests? (completed and passed|completed and failed|skipped)", run.output))
        return {"passed": len(re.findall(r"PASSED", run.output)), "failed": len(re.findall(r"FAILED", run.output)), "counts": counts}
