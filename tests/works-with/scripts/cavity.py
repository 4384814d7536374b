"""meep: a pulse in a waveguide with a bend; the field at a point, and the flux of energy."""

import json

import meep

meep.verbosity(0)
geometry = [meep.Block(meep.Vector3(6, 1, meep.inf), center=meep.Vector3(-1, -1), material=meep.Medium(epsilon=12)),
            meep.Block(meep.Vector3(1, 6, meep.inf), center=meep.Vector3(2, 1.5), material=meep.Medium(epsilon=12))]
simulation = meep.Simulation(cell_size=meep.Vector3(8, 8), geometry=geometry, boundary_layers=[meep.PML(1.0)], resolution=10, sources=[
    meep.Source(meep.GaussianSource(0.15, fwidth=0.1), component=meep.Ez, center=meep.Vector3(-3, -1), size=meep.Vector3(0, 1))])
flux = simulation.add_flux(0.15, 0.1, 3, meep.FluxRegion(center=meep.Vector3(2, 2), size=meep.Vector3(2, 0)))
simulation.run(until=40)
field = simulation.get_field_point(meep.Ez, meep.Vector3(2, 1))
energy = meep.get_fluxes(flux)
if meep.am_master():
    print("RESULT", json.dumps({"field": field.real, "flux": energy, "ranks": meep.count_processors()}), flush=True)
