/* Collectives of GPUs for C: the calls of collectives.h, enqueued on a CUDA stream. The data goes
 * straight between the GPU's memory and the pool; reductions are done by kernels. NVIDIA's driver
 * is loaded when it is first needed; nothing of CUDA is needed to build.
 *
 * Results, ownership, units: penstock.h.
 * Order      All ranks of a communicator enqueue the same calls in the same order, whichever
 *            streams they use. Calls of one communicator are done in that order.
 * Threads    One thread at a time enqueues; error and abort are for any thread at any time.
 * Memory     Buffers are memory of the current device, or of the host as the GPU reaches it
 *            (cudaHostAlloc, cudaHostRegister). A call is ordered on its stream as a kernel is.
 * Form       In hardware and uncached mode, where all ranks open the communicator with `gpu` set,
 * the streams wait for words of the pool by themselves (the direct form); else a thread of the host
 * keeps the protocol. PENSTOCK_LOG=info says which. Results are the same. Graphs     In the direct
 * form a stream may capture: the call is done as often as the graph is launched, on all ranks
 * alike. The program orders graphs and other calls of one communicator by streams and events. The
 * communicator outlives the graph's launches. Results    of reductions are those of hosts, bit by
 * bit. Source     CCCL, section 4; docs/protocols/collectives.md, "Data that a GPU moves".
 */
#ifndef PENSTOCK_GPU_H
#define PENSTOCK_GPU_H

#include "penstock/collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues the call on `stream` (a cudaStream_t or CUstream of the current device; NULL: its
 * default stream) and returns before it is done. `cancelled` of the call does not count. Several
 * ranks may share a GPU. A thread that enqueues for several ranks does so for each by a thread of
 * its own when a call takes more than a thousand copies. Errors: invalid_argument, also where the
 * stream captures a graph and the form is not the direct one; not_found (no driver); unavailable
 * (the driver refuses, or an earlier call has failed). */
PENSTOCK_API penstock_status_t penstock_comm_enqueue(penstock_comm_t* comm,
                                                     const penstock_call_t* call, void* stream);
/* Whether a call that was enqueued has failed; no wait. A call that a stream has done was done
 * right if this, asked then, says so. Once one has failed, streams wait for none of this
 * communicator any more, and the results of those that were not done are undefined. Errors: those
 * of penstock_comm_run. */
PENSTOCK_API penstock_status_t penstock_comm_error(penstock_comm_t* comm);
/* Waits until all that was enqueued is done. Errors: those of penstock_comm_error. */
PENSTOCK_API penstock_status_t penstock_comm_drain(penstock_comm_t* comm);
/* Ends all calls with an error, on all ranks that need this one. */
PENSTOCK_API penstock_status_t penstock_comm_abort(penstock_comm_t* comm);

#ifdef __cplusplus
}
#endif

#endif /* PENSTOCK_GPU_H */
