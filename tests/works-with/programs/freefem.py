import re

from launchers import DebianOpenMpi, Program as Base

SCRIPT = """// Schwarz's method: each rank solves its strip of the square, and neighbours exchange their borders.
real width = 1. / mpisize;
real low = max(0., mpirank * width - 0.1), high = min(1., (mpirank + 1) * width + 0.1);
mesh Th = square(12, 24, [low + (high - low) * x, y]);
fespace Vh(Th, P1);
Vh u = 0, v, left = 0, right = 0;
int[int] none(0);
real[int] mine(50), got(50);
for (int step = 0; step < 12; step++) {
  solve Poisson(u, v) = int2d(Th)(dx(u) * dx(v) + dy(u) * dy(v)) - int2d(Th)(v) + on(1, 3, u=0) + on(4, u=left) + on(2, u=right);
  for (int side = 0; side < 2; side++) {
    int next = side ? mpirank + 1 : mpirank - 1;
    if (next < 0 || next >= mpisize) continue;
    real place = side ? (mpirank + 1) * width - 0.1 : mpirank * width + 0.1;
    for (int k = 0; k < 50; k++) mine[k] = u(place, k / 49.);
    if (mpirank % 2) { Send(processor(next), mine); Recv(processor(next), got); }
    else { Recv(processor(next), got); Send(processor(next), mine); }
    if (side) { right = got[min(49., y * 49 + 0.5)]; } else { left = got[min(49., y * 49 + 0.5)]; }
  }
}
real own = int2d(Th)(u), all = 0, top = u[].max, highest = 0;
mpiAllReduce(own, all, mpiCommWorld, mpiSUM);
mpiReduce(top, highest, processor(0, mpiCommWorld), mpiMAX);
if (mpirank == 0) cout.precision(12);
if (mpirank == 0) cout << "RESULT " << all << " " << highest << endl;
"""


class Program(Base):
    title, launcher, debian = "FreeFEM", DebianOpenMpi, ("freefem++=4.11+dfsg1-3",)
    case = "Schwarz's method for Poisson's equation, a strip for each rank; integral and maximum"
    tolerance = 1e-9

    def command(self, run):
        return ["FreeFem++-mpi", "-nw", "-v", 0, run.write("schwarz.edp", SCRIPT)]

    def result(self, run):
        return [float(each) for each in re.search(r"RESULT (\S+) (\S+)", run.output).groups()]
