import re

from launchers import DebianOpenMpi, Program as Base

INPUT = """&GLOBAL
  PROJECT water
  RUN_TYPE ENERGY_FORCE
  PRINT_LEVEL LOW
&END GLOBAL
&FORCE_EVAL
  METHOD Quickstep
  &DFT
    BASIS_SET_FILE_NAME /usr/share/cp2k/BASIS_SET
    POTENTIAL_FILE_NAME /usr/share/cp2k/GTH_POTENTIALS
    &MGRID
      CUTOFF 140
    &END MGRID
    &SCF
      EPS_SCF 1.0E-6
      MAX_SCF 30
      SCF_GUESS ATOMIC
    &END SCF
    &XC
      &XC_FUNCTIONAL PADE
      &END XC_FUNCTIONAL
    &END XC
  &END DFT
  &SUBSYS
    &CELL
      ABC 5.0 5.0 5.0
    &END CELL
    &COORD
      O 0.000 0.000 0.117
      H 0.000 0.757 -0.469
      H 0.000 -0.757 -0.469
    &END COORD
    &KIND H
      BASIS_SET DZV-GTH-PADE
      POTENTIAL GTH-PADE-q1
    &END KIND
    &KIND O
      BASIS_SET DZVP-GTH-PADE
      POTENTIAL GTH-PADE-q6
    &END KIND
  &END SUBSYS
  &PRINT
    &FORCES ON
    &END FORCES
  &END PRINT
&END FORCE_EVAL
"""


class Program(Base):
    title, launcher, debian = "CP2K", DebianOpenMpi, ("cp2k=2023.1-2",)
    case = "a molecule of water by density functional theory; energy and forces"
    tolerance = 1e-6

    def command(self, run):
        return ["cp2k.psmp", "-i", run.write("water.inp", INPUT)]

    def result(self, run):
        energy = re.search(r"ENERGY\| Total FORCE_EVAL.*?(-?\d+\.\d+)\s*$", run.output, re.M)
        forces = re.findall(r"^ +\d+ +\d+ +[OH] +((?:-?\d+\.\d+ *){3})$", run.output, re.M)
        return {"energy": float(energy.group(1)), "forces": [round(float(each), 6) for row in forces for each in row.split()]}
