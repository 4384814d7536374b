import re

from launchers import DebianOpenMpi, Program as Base

INPUT = """&control
  calculation='scf', tprnfor=.true., tstress=.true., pseudo_dir='/usr/share/espresso/pseudo', outdir='./out', disk_io='none'
/
&system
  ibrav=2, celldm(1)=10.2, nat=2, ntyp=1, ecutwfc=14
/
&electrons
  conv_thr=1d-10
/
ATOMIC_SPECIES
 Si 28.086 Si.pz-vbc.UPF
ATOMIC_POSITIONS alat
 Si 0.00 0.00 0.00
 Si 0.26 0.25 0.25
K_POINTS automatic
 2 2 2 1 1 1
"""


class Program(Base):
    title, launcher = "Quantum ESPRESSO", DebianOpenMpi
    debian = ("quantum-espresso=6.7-2+b1", "quantum-espresso-data=6.7-2")
    case = "pw.x: two silicon atoms, self-consistent; energy, force and pressure"
    tolerance = 1e-6

    def command(self, run):
        return ["pw.x", "-in", run.write("si.in", INPUT)]

    def result(self, run):
        text = run.output
        return {"energy": float(re.search(r"^! +total energy += +(\S+) Ry", text, re.M).group(1)),
                "force": float(re.search(r"Total force = +(\S+)", text).group(1)),
                "pressure": float(re.search(r"P= +(\S+)", text).group(1)), "done": "JOB DONE" in text}
