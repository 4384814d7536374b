/* Collectives of GPUs for C: the calls of collectives.h, enqueued on a CUDA stream. The data goes
 * straight between the GPU's memory and the pool; kernels do the reductions. NVIDIA's driver is
 * loaded at its first use; building needs nothing of CUDA.
 *
 * Results, ownership, units: penstock.h.
 * Order      All ranks of a communicator enqueue the same calls in the same order, whichever
 *            streams they use. The calls of one communicator are done in that order.
 * Threads    One thread at a time enqueues; any thread may call error and abort at any time.
 * Device     A communicator's GPU is that of the first stream on which a call is enqueued, or the
 *            current one for a default stream. A process may have several GPUs, and communicators
 *            on each.
 * Memory     Buffers are memory of that GPU, or host memory that it reaches (cudaHostAlloc,
 *            cudaHostRegister). A call is ordered on its stream as a kernel is. A call that has
 *            failed or was aborted is not taken off the GPU: what its stream was given before
 *            comes first, then the GPU may write the output, and then the stream goes on. So a
 *            buffer stays the call's until its stream has passed the call, or penstock_comm_drain
 *            or penstock_comm_close has returned. Work that is ordered behind the stream is
 *            safe, such as cudaFreeAsync there and a tensor's record_stream.
 * Form       The streams themselves wait for words of the pool (the direct form) in hardware and
 *            uncached mode, if all ranks open the communicator with `gpu` set; else a thread of the
 *            host keeps the protocol. PENSTOCK_LOG=info says which. Results are the same.
 * Graphs     In the direct form a stream may capture: the call is done each time the graph is
 *            launched, equally often on all ranks. The program orders graphs and other calls of one
 *            communicator by streams and events. The communicator outlives the graph's launches.
 * Rounding   Reductions give the results of hosts, bit by bit.
 * Source     CCCL, section 4; docs/protocols/collectives.md, "Data that a GPU moves".
 */
#ifndef PENSTOCK_GPU_H
#define PENSTOCK_GPU_H

#include "penstock/collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Enqueues the call on `stream` (a cudaStream_t or CUstream; NULL: the default stream of the
 * current device) and returns before the call is done. Ignores the call's `cancelled`. While
 * hundreds of operations are queued it waits until the GPU has done some, or another thread calls
 * penstock_comm_abort(). Several ranks may share a GPU. A thread that enqueues long or many calls
 * for several ranks does so through a thread for each rank. Errors: invalid_argument, also if the
 * stream belongs to another GPU than the communicator, or captures a graph and the form is not the
 * direct one; not_found (no driver); unavailable (the driver refuses, or an earlier call has
 * failed). */
PENSTOCK_API penstock_status_t penstock_comm_enqueue(penstock_comm_t* comm,
                                                     const penstock_call_t* call, void* stream);
/* Returns whether an enqueued call has failed; does not wait. A call that its stream has completed
 * is right if this function, called then, reports no error. After a failure the streams no longer
 * wait for this communicator, and the results of calls that were not done are undefined. Errors:
 * those of penstock_comm_run. */
PENSTOCK_API penstock_status_t penstock_comm_error(penstock_comm_t* comm);
/* Returns 1 while an enqueued call may have to wait for other ranks, or stands behind one that
 * may; else 0, also after a failure. Does not wait. */
PENSTOCK_API int penstock_comm_busy(penstock_comm_t* comm);
/* Waits until all enqueued calls are done or, after a failure, until the GPU has passed all of
 * them (see Memory). Errors: those of penstock_comm_error. */
PENSTOCK_API penstock_status_t penstock_comm_drain(penstock_comm_t* comm);
/* Ends all calls with an error, on every rank that needs this one. Does not wait: the GPU may still
 * access buffers of the calls (see Memory). */
PENSTOCK_API penstock_status_t penstock_comm_abort(penstock_comm_t* comm);

#ifdef __cplusplus
}
#endif

#endif /* PENSTOCK_GPU_H */
