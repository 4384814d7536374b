"""NGSolve: Poisson's equation on a mesh that is spread over the ranks, by conjugate gradients with a parallel preconditioner."""

import json

from mpi4py import MPI
from netgen.geom2d import unit_square
from ngsolve import (BilinearForm, GridFunction, H1, Integrate, LinearForm, Mesh, Preconditioner, dx, grad, solvers)

comm = MPI.COMM_WORLD
if comm.rank == 0:
    mesh = Mesh(unit_square.GenerateMesh(maxh=0.1).Distribute(comm))
else:
    from netgen.meshing import Mesh as NetgenMesh
    mesh = Mesh(NetgenMesh.Receive(comm))
space = H1(mesh, order=2, dirichlet=".*")
u, v = space.TnT()
form = BilinearForm(grad(u) * grad(v) * dx)
preconditioner = Preconditioner(form, "local")
form.Assemble()
right = LinearForm(v * dx).Assemble()
solution = GridFunction(space)
solvers.CG(mat=form.mat, pre=preconditioner.mat, rhs=right.vec, sol=solution.vec, maxsteps=300, tol=1e-12, printrates=False)
total = Integrate(solution, mesh)
if comm.rank == 0:
    print("RESULT", json.dumps({"integral": total, "ranks": comm.size}), flush=True)
