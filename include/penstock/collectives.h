/* Collectives for C: broadcast, allreduce and the like between the processes of a pool. No message
 * is sent: a rank publishes in its own memory in the pool, and the others read there.
 *
 * Results, ownership, units: penstock.h.
 * Order      All ranks of a communicator make the same calls in the same order.
 * Threads    One thread at a time uses a communicator; several communicators are independent.
 * Memory     Buffers are ordinary memory of the process, in the pool or not. The others get the
 *            input that a rank had stored before its call. In calls of 2 MB or more, whole lines of
 *            input in the pool that form parts of 16 KB or more are not copied: the others read
 *            them in place, and the call returns once they have done so.
 * Rounding   The result of a reduction depends on the ranks' values alone: operands come in rank
 *            order, 16- and 8-bit floats are accumulated in 32 bits and rounded once.
 * Source     CCCL, sections 3 and 4; docs/protocols/collectives.md.
 *
 * Example    examples/allreduce.c
 */
#ifndef PENSTOCK_COLLECTIVES_H
#define PENSTOCK_COLLECTIVES_H

#include "penstock/penstock.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct penstock_comm penstock_comm_t; /* given back to penstock_comm_close */

typedef enum penstock_collective {
  PENSTOCK_BARRIER = 0,
  PENSTOCK_BROADCAST = 1,
  PENSTOCK_GATHER = 2,
  PENSTOCK_SCATTER = 3,
  PENSTOCK_ALLGATHER = 4,
  PENSTOCK_ALLTOALL = 5,
  PENSTOCK_REDUCE = 6,
  PENSTOCK_REDUCE_SCATTER = 7,
  PENSTOCK_ALLREDUCE = 8,
  PENSTOCK_SCAN = 9,   /* rank r gets the reduction of ranks 0 to r */
  PENSTOCK_EXSCAN = 10 /* ... of ranks 0 to r - 1; rank 0 gets nothing */
} penstock_collective_t;

typedef enum penstock_datatype {
  PENSTOCK_INT8 = 0,
  PENSTOCK_UINT8 = 1,
  PENSTOCK_INT16 = 2,
  PENSTOCK_UINT16 = 3,
  PENSTOCK_INT32 = 4,
  PENSTOCK_UINT32 = 5,
  PENSTOCK_INT64 = 6,
  PENSTOCK_UINT64 = 7,
  PENSTOCK_FLOAT16 = 8,
  PENSTOCK_BFLOAT16 = 9,
  PENSTOCK_FLOAT32 = 10,
  PENSTOCK_FLOAT64 = 11,
  PENSTOCK_FLOAT8_E4M3 = 12,
  PENSTOCK_FLOAT8_E5M2 = 13,
  PENSTOCK_BOOLEAN = 14 /* a byte: 0 or not 0; results are 0 or 1 */
} penstock_datatype_t;

typedef enum penstock_operation {
  PENSTOCK_SUM = 0,
  PENSTOCK_PRODUCT = 1,
  PENSTOCK_MINIMUM = 2,
  PENSTOCK_MAXIMUM = 3,
  PENSTOCK_AVERAGE = 4,           /* integers are rounded towards zero */
  PENSTOCK_PREMULTIPLIED_SUM = 5, /* of each value times `factor`, the same on all ranks */
  PENSTOCK_BIT_AND = 6,
  PENSTOCK_BIT_OR = 7,
  PENSTOCK_BIT_XOR = 8,
  PENSTOCK_LOGICAL_AND = 9, /* 0 or 1 */
  PENSTOCK_LOGICAL_OR = 10,
  PENSTOCK_LOGICAL_XOR = 11
} penstock_operation_t;

/* Exchanges `bytes` between ranks that cannot reach each other yet: stores every rank's `mine`, in
 * rank order, into `all`; by a key-value store or MPI_Allgather, for example. Returns 0 on success.
 * If it fails on some ranks alone, the others learn of it in their first call; but not of a rank
 * that has not got rank 0's bytes: they wait until its process has detached or ended. */
typedef int (*penstock_exchange_t)(void* user, const void* mine, void* all, uint64_t bytes);

typedef struct {
  size_t struct_bytes; /* sizeof(penstock_comm_options_t) */
  uint32_t rank, ranks;
  const char* name; /* in messages: "process group 3"; NULL: "communicator" */
  penstock_exchange_t exchange;
  void* user;          /* first argument of exchange */
  uint64_t slot_bytes; /* length of a chunk; 0: by the pool's size, longer with `gpu` */
  int check;           /* compare the calls of all ranks; makes each as slow as a barrier */
  int gpu; /* nonzero: calls are also enqueued on the device that is current now (gpu.h) */
} penstock_comm_options_t;

/* Opens a communicator. Collective: all ranks call it, with the same `ranks` and `check`; rank 0's
 * `slot_bytes` counts. Calls `exchange` once. Takes about 40 KB a rank, and slots: 1/32 of the
 * pool, less where the pool is fuller. Without `gpu` the slots come at the first call of more than
 * a few KB (in hardware mode, of a few hundred bytes), which waits for rank 0. Errors:
 * invalid_argument, no_space, mismatch (a rank uses another pool), peer_dead, unavailable (the
 * exchange failed). */
PENSTOCK_API penstock_status_t penstock_comm_open(penstock_pool_t* pool,
                                                  const penstock_comm_options_t* options,
                                                  penstock_comm_t** comm);
/* Returns the token of a rank's process, for penstock_pool_alive(); 0 if there is no such rank. */
PENSTOCK_API uint64_t penstock_comm_token(const penstock_comm_t* comm, uint32_t rank);
/* Gives the handle back: this rank makes no more calls. Does not wait; the pool's space becomes
 * free once all ranks have closed. NULL is ignored. */
PENSTOCK_API void penstock_comm_close(penstock_comm_t* comm);

/* A part of a buffer that belongs to one rank. The blocks of a list may differ in length; in a
 * reduce_scatter all ranks give the same lengths. */
typedef struct {
  uint64_t offset, bytes;
} penstock_block_t;

/* | collective                | input blocks        | output blocks       |
 * |---------------------------|---------------------|---------------------|
 * | barrier                   | none                | none                |
 * | broadcast                 | root: one           | others: one         |
 * | gather                    | one                 | root: one each rank |
 * | scatter                   | root: one each rank | one                 |
 * | allgather                 | one                 | one each rank       |
 * | alltoall                  | one each rank       | one each rank       |
 * | reduce                    | one                 | root: one           |
 * | reduce_scatter            | one each rank       | one                 |
 * | allreduce, scan, exscan   | one                 | one                 |
 *
 * In place: `input` is `output`. For gather, scatter (at the root) and allgather the rank's own
 * block then lies at its place in the long buffer, and both lists name it. */
typedef struct {
  size_t struct_bytes; /* sizeof(penstock_call_t) */
  const char* name;    /* in messages and `penstock ps`; valid during the call; NULL: a default */
  int32_t collective;  /* penstock_collective_t */
  uint32_t root;
  int32_t datatype, operation; /* for reductions */
  double factor;               /* for PENSTOCK_PREMULTIPLIED_SUM */
  const void* input;
  void* output;
  const penstock_block_t* input_blocks;
  const penstock_block_t* output_blocks;
  uint32_t input_count, output_count; /* number of blocks */
  uint64_t max_block_bytes;           /* the longest block of any rank ... */
  int max_is_known;                   /* ... if all ranks know it: short calls are faster then */
  uint64_t timeout_ns;                /* 0: none */
  const volatile int* cancelled;      /* another thread stores 1 to end the wait; NULL: none */
  const void* factor_at; /* gpu.h: address of the factor, as a value of the type; NULL: `factor` */
} penstock_call_t;

/* Runs one collective. Blocks until this rank's part is done: its output is complete, its input may
 * be changed. Errors: invalid_argument, on all ranks alike (nothing was done); peer_dead, deadline
 * and unavailable (cancelled), which name the ranks waited for; mismatch, which names the rank
 * whose call differs; no_space, on all ranks alike (no room for the slots). After any but the
 * first, every later call of this rank fails, and so does every call of other ranks that needs it:
 * close the communicator and open another. */
PENSTOCK_API penstock_status_t penstock_comm_run(penstock_comm_t* comm,
                                                 const penstock_call_t* call);

#ifdef __cplusplus
}
#endif

#endif /* PENSTOCK_COLLECTIVES_H */
