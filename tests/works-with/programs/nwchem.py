import re

from launchers import DebianOpenMpi, Program as Base

INPUT = """start water
memory total 200 mb
geometry units angstrom
  O 0.000 0.000 0.117
  H 0.000 0.757 -0.469
  H 0.000 -0.757 -0.469
end
basis
  * library 6-31g*
end
task scf gradient
dft
  xc b3lyp
end
task dft
"""


class Program(Base):
    title, launcher, debian = "NWChem", DebianOpenMpi, ("nwchem-openmpi=7.0.2-4",)
    case = "water: Hartree-Fock with gradient, and B3LYP; energies and forces"
    tolerance = 1e-6
    modes = ("software", "hardware")
    note = "Simulated mode, which is for tests, took longer than five minutes."

    def command(self, run):
        return ["nwchem.openmpi", run.write("water.nw", INPUT)]

    def result(self, run):
        energies = [float(value) for value in re.findall(r"Total (?:SCF|DFT) energy = +(\S+)", run.output)]
        forces = re.findall(r"^ +\d [OH] +(?:-?\d+\.\d+ +){3}((?:-?\d+\.\d+ *){3})$", run.output, re.M)
        return {"energies": energies, "forces": [round(float(each), 5) for row in forces for each in row.split()]} if len(energies) == 2 else None
