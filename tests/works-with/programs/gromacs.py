import re
import subprocess

from launchers import DebianOpenMpi, Program as Base

TOPOLOGY = """#include "amber03.ff/forcefield.itp"
#include "amber03.ff/spce.itp"
[ system ]
water
[ molecules ]
"""
SETTINGS = """integrator = md
dt = 0.001
nsteps = 30
nstlog = 10
nstenergy = 10
nstcalcenergy = 10
coulombtype = PME
rcoulomb = 0.9
rvdw = 0.9
tcoupl = v-rescale
tc-grps = System
tau-t = 0.5
ref-t = 300
gen-vel = yes
gen-seed = 7
ld-seed = 7
constraints = h-bonds
"""


class Program(Base):
    title, launcher, debian = "GROMACS", DebianOpenMpi, ("gromacs=2022.5-2",)
    case = "water in a box with PME, 30 steps; energies every ten"
    tolerance = 1e-4
    environment = {"GMX_MAXBACKUP": -1}

    def command(self, run):
        run.write("topol.top", TOPOLOGY)
        run.write("grompp.mdp", SETTINGS)
        for words in ("solvate -cs spc216.gro -box 3.72412 3.72412 1.86206 -o conf.gro -p topol.top",
                      "grompp -f grompp.mdp -c conf.gro -p topol.top -o topol.tpr -maxwarn 5"):
            subprocess.run(["gmx", *words.split()], cwd=run.folder, check=True, capture_output=True)
        return ["gmx_mpi", "mdrun", "-s", "topol.tpr", "-ntomp", 1, "-pin", "off", "-reprod", "-notunepme", "-dlb", "no", "-npme", 0]

    def result(self, run):
        blocks = re.findall(r"   Energies \(kJ/mol\)\n(.*?)\n\n", run.read("md.log"), re.S)
        return {str(number): [float(value) for line in block.split("\n")[1::2] for value in line.split()] for number, block in enumerate(blocks)}
