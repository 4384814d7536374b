"""petsc4py: Poisson's equation on a grid of DMDA, by conjugate gradients with multigrid, and by GMRES with additive Schwarz."""

import json
import sys

import petsc4py

petsc4py.init(sys.argv)
from petsc4py import PETSc  # noqa: E402

result = {}
grid = PETSc.DMDA().create([41, 37], stencil_width=1, comm=PETSc.COMM_WORLD)
matrix = grid.createMatrix()
(x_begin, x_end), (y_begin, y_end) = grid.getRanges()
row, column = PETSc.Mat.Stencil(), PETSc.Mat.Stencil()
for j in range(y_begin, y_end):
    for i in range(x_begin, x_end):
        row.index = (i, j)
        for index, value in (((i, j), 4.0), ((i - 1, j), -1.0), ((i + 1, j), -1.0), ((i, j - 1), -1.0), ((i, j + 1), -1.0)):
            if 0 <= index[0] < 41 and 0 <= index[1] < 37:
                column.index = index
                matrix.setValueStencil(row, column, value)
matrix.assemble()
right, solution = grid.createGlobalVec(), grid.createGlobalVec()
right.set(1.0)
for solver_type, preconditioner in (("cg", "gamg"), ("gmres", "asm")):
    solver = PETSc.KSP().create(PETSc.COMM_WORLD)
    solver.setOperators(matrix)
    solver.setType(solver_type)
    solver.getPC().setType(preconditioner)
    solver.setTolerances(rtol=1e-10)
    solver.solve(right, solution)
    result[preconditioner] = {"iterations": solver.getIterationNumber(), "norm": solution.norm(), "max": solution.max()[1]}
if PETSc.COMM_WORLD.getRank() == 0:
    print("RESULT", json.dumps(result))
