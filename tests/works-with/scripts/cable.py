"""NEURON: a ring of cells that excite each other across ranks by ParallelContext."""

import json

from neuron import h

h.nrnmpi_init()
h.load_file("stdrun.hoc")
context = h.ParallelContext()
rank, ranks = int(context.id()), int(context.nhost())
cells, number = {}, 12
for gid in range(rank, number, ranks):
    soma = h.Section(name=f"soma{gid}")
    soma.L = soma.diam = 20
    soma.insert("hh")
    synapse = h.ExpSyn(soma(0.5))
    context.set_gid2node(gid, rank)
    spikes = h.NetCon(soma(0.5)._ref_v, None, sec=soma)
    spikes.threshold = 0
    context.cell(gid, spikes)
    cells[gid] = [soma, synapse, spikes, h.Vector()]
    context.spike_record(gid, cells[gid][3], h.Vector())
for gid, parts in cells.items():
    wire = context.gid_connect((gid - 1) % number, parts[1])
    wire.weight[0], wire.delay = 0.05, 2
    parts.append(wire)
if 0 in cells:
    first = h.NetStim()
    first.number, first.start = 1, 1
    kick = h.NetCon(first, cells[0][1])
    kick.weight[0], kick.delay = 0.05, 0
context.set_maxstep(10)
h.finitialize(-65)
context.psolve(60)
gathered = context.py_allgather({gid: [round(time, 6) for time in parts[3]] for gid, parts in cells.items()})
if rank == 0:
    merged = {str(gid): times for part in gathered for gid, times in part.items()}
    print("RESULT", json.dumps({"ranks": ranks, "spikes": dict(sorted(merged.items()))}), flush=True)
context.barrier()
h.quit()
