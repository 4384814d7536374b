import re

from launchers import DebianOpenMpi, Program as Base

INPUT = """units lj
atom_style atomic
lattice fcc 0.8442
region box block 0 6 0 6 0 6
create_box 1 box
create_atoms 1 box
mass 1 1.0
velocity all create 3.0 87287 loop geom
pair_style lj/cut 2.5
pair_coeff 1 1 1.0 1.0 2.5
neighbor 0.3 bin
neigh_modify every 5 delay 0 check yes
fix 1 all nve
thermo 10
run 60
"""


class Program(Base):
    title, launcher, debian = "LAMMPS", DebianOpenMpi, ("lammps=20220106.git7586adbb6a+ds1-2+b2",)
    case = "864 Lennard-Jones atoms, 60 steps; temperature, energies and pressure every ten"
    tolerance = 1e-9

    def command(self, run):
        return ["lmp", "-in", run.write("in.melt", INPUT), "-log", "none"]

    def result(self, run):
        rows = re.findall(r"^ +(\d+)((?: +-?[\d.e+-]+){5}) *$", run.output, re.M)
        return {step: [float(each) for each in values.split()] for step, values in rows}
