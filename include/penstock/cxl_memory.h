/* Five calls for memory in a pool that the ranks of a job share, after those of a published
 * all-gather over CXL memory (paper 5, which names cxlwrite and cxlread only; the rest is our
 * reading). Offsets take the place of pointers: they mean the same in every process.
 *
 *   cxlinit(spec, job, rank, ranks, &memory)  attaches this rank to the pool
 *   cxlalloc(&memory, key, bytes, &offset)    memory that all ranks of the job reach; all call it
 *   cxlwrite(&memory, offset, from, bytes)    copies into the pool
 *   cxlread(&memory, to, offset, bytes)       copies out of the pool
 *   cxlfinal(&memory)                         gives the memory back and detaches; all call it
 *
 * Results    penstock_status_t: PENSTOCK_OK (0), or the kind of error; penstock_last_error()
 *            describes it.
 * Units      Sizes and offsets in bytes, from the start of the pool.
 * Ordering   When cxlwrite returns, its bytes are at the device, before all later writes of this
 *            rank. cxlread gives bytes that were at the device after it was called. So write data,
 *            then a flag: a rank that reads the flag finds the data by its next cxlread. A flag of
 *            8 aligned bytes is never seen in parts.
 * Lines      At any moment at most one rank writes to a line of 64 bytes: a cxlwrite of a part of
 *            a line also writes back the rest of it, as it was.
 * Threads    One thread at a time uses a cxl_memory_t.
 * Deaths     cxlalloc and cxlfinal notice them (peer_dead). The memory of a job whose rank 0 has
 *            died is freed when others find it dead.
 * Example    examples/allgather
 * Source     "CXL collectives", the all-gather in three phases and its memory manager.
 */
#ifndef PENSTOCK_CXL_MEMORY_H
#define PENSTOCK_CXL_MEMORY_H

#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "penstock/penstock.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One rank's handle. Its members belong to these calls, except `pool`, which may be used with
 * penstock.h. */
typedef struct cxl_memory {
  penstock_pool_t* pool;
  penstock_object_t* lines; /* see cxl_memory_line */
  char* base;               /* where this process has mapped the pool */
  uint64_t bytes;           /* length of the pool */
  uint32_t rank, ranks;
  uint64_t allocations;
  char job[PENSTOCK_MAX_NAME_BYTES + 1];
} cxl_memory_t;

/* The job's object, which rank 0 makes and which has the job's name. Line 0: how many allocations
 * rank 0 has made. Two lines for each rank, which it alone writes: its token, and a doorbell that
 * it rings when it leaves. */
static inline uint64_t cxl_memory_line(uint32_t rank, int bell) {
  return 64 * (1 + 2 * (uint64_t)rank + (bell ? 1 : 0));
}

static inline uint64_t cxl_memory_token(const cxl_memory_t* memory, uint32_t rank) {
  uint64_t token = 0;
  const char* at = (const char*)penstock_object_data(memory->lines);
  penstock_read(memory->pool, &token, at + cxl_memory_line(rank, 0), sizeof token);
  return token;
}

/* Waits until `rank` has rung the bell at `offset` of the job's lines for `number`. */
static inline penstock_status_t cxl_memory_await(const cxl_memory_t* memory, uint64_t offset,
                                                 uint64_t number, uint32_t rank) {
  penstock_doorbell_t* bell = NULL;
  penstock_status_t status = penstock_doorbell_open(memory->lines, offset, &bell);
  if (status != PENSTOCK_OK) return status;
  status = penstock_doorbell_wait(bell, number, 0, cxl_memory_token(memory, rank));
  penstock_doorbell_close(bell);
  return status;
}

static inline penstock_status_t cxl_memory_ring(const cxl_memory_t* memory, uint64_t offset,
                                                uint64_t number) {
  penstock_doorbell_t* bell = NULL;
  penstock_status_t status = penstock_doorbell_open(memory->lines, offset, &bell);
  if (status != PENSTOCK_OK) return status;
  status = penstock_doorbell_ring(bell, number);
  penstock_doorbell_close(bell);
  return status;
}

/* Rank 0 makes the lines; the others poll for them every millisecond. */
static inline penstock_status_t cxl_memory_open_lines(cxl_memory_t* memory) {
  penstock_object_options_t options;
  int looks;
  memset(&options, 0, sizeof options);
  options.struct_bytes = sizeof options;
  options.lifetime = PENSTOCK_LIFETIME_PROCESS;
  if (memory->rank == 0)
    return penstock_arena_create(memory->pool, memory->job, cxl_memory_line(memory->ranks, 0),
                                 &options, &memory->lines);
  for (looks = 0;; ++looks) {
    const penstock_status_t status = penstock_arena_open(memory->pool, memory->job, &memory->lines);
    if (status != PENSTOCK_NOT_FOUND || looks == 30000) return status;
    poll(NULL, 0, 1);
  }
}

/* Attaches this rank. `spec`: a pool that exists; NULL: PENSTOCK_POOL. `job`: a name of at most 40
 * bytes, the same on all ranks, that no other running job in this pool uses. Ranks other than 0
 * wait for rank 0, half a minute at most. Errors: those of penstock_pool_attach and
 * penstock_arena_create (rank 0: already_exists if another job has the name); not_found if rank 0
 * does not come. */
static inline penstock_status_t cxlinit(const char* spec, const char* job, uint32_t rank,
                                        uint32_t ranks, cxl_memory_t* memory) {
  penstock_attach_options_t options;
  penstock_object_info_t found;
  penstock_pool_info_t info;
  penstock_status_t status;
  memset(&options, 0, sizeof options);
  memset(memory, 0, sizeof *memory);
  options.struct_bytes = sizeof options;
  options.rank = (int32_t)rank;
  options.job = job;
  memory->rank = rank;
  memory->ranks = ranks;
  snprintf(memory->job, sizeof memory->job, "%s", job);
  status = penstock_pool_attach(spec, &options, &memory->pool);
  if (status == PENSTOCK_OK) status = cxl_memory_open_lines(memory);
  if (status == PENSTOCK_OK) status = penstock_pool_info(memory->pool, &info);
  if (status == PENSTOCK_OK) {
    penstock_object_info(memory->lines, &found);
    memory->base = (char*)found.data - found.offset;
    memory->bytes = info.bytes;
    status = penstock_write(memory->pool, (char*)found.data + cxl_memory_line(rank, 0), &info.token,
                            sizeof info.token);
  }
  if (status != PENSTOCK_OK) {
    penstock_arena_close(memory->lines);
    penstock_pool_detach(memory->pool);
    memset(memory, 0, sizeof *memory);
  }
  return status;
}

/* Allocates zeroed memory; `*offset` is a multiple of a line. All ranks call it with the same keys
 * in the same order; a key is used once. Ranks other than 0 wait for rank 0. Errors: those of
 * penstock_arena_create; deadline and peer_dead, for rank 0. */
static inline penstock_status_t cxlalloc(cxl_memory_t* memory, const char* key, uint64_t bytes,
                                         uint64_t* offset) {
  char name[2 * PENSTOCK_MAX_NAME_BYTES + 2];
  penstock_object_options_t options;
  penstock_object_t* object = NULL;
  penstock_object_info_t info;
  penstock_status_t status;
  memset(&options, 0, sizeof options);
  options.struct_bytes = sizeof options;
  options.lifetime = PENSTOCK_LIFETIME_PROCESS;
  snprintf(name, sizeof name, "%s.%.*s", memory->job, PENSTOCK_MAX_NAME_BYTES, key);
  if (memory->rank == 0) {
    status = penstock_arena_create(memory->pool, name, bytes, &options, &object);
    if (status == PENSTOCK_OK) status = cxl_memory_ring(memory, 0, memory->allocations + 1);
  } else {
    status = cxl_memory_await(memory, 0, memory->allocations + 1, 0);
    if (status == PENSTOCK_OK) status = penstock_arena_open(memory->pool, name, &object);
  }
  if (status != PENSTOCK_OK) return status;
  ++memory->allocations;
  penstock_object_info(object, &info);
  *offset = info.offset;
  penstock_arena_close(object);
  return PENSTOCK_OK;
}

/* Copies into the pool, publishes and orders (penstock_write). `offset` needs no alignment. Errors:
 * invalid_argument if the bytes do not lie in the pool. */
static inline penstock_status_t cxlwrite(cxl_memory_t* memory, uint64_t offset, const void* from,
                                         uint64_t bytes) {
  char* const to = offset <= memory->bytes ? memory->base + offset : NULL;
  return penstock_write(memory->pool, to, from, bytes);
}

/* Observes and copies out of the pool (penstock_read). Errors: as for cxlwrite. */
static inline penstock_status_t cxlread(cxl_memory_t* memory, void* to, uint64_t offset,
                                        uint64_t bytes) {
  const char* const from = offset <= memory->bytes ? memory->base + offset : NULL;
  return penstock_read(memory->pool, to, from, bytes);
}

/* Ends this rank's use of the memory. Rank 0 waits until all others have called it, frees the
 * memory and detaches; the others return at once. Errors of rank 0: peer_dead (it has detached all
 * the same); deadline, while another rank is not done: nothing has happened, and rank 0 may call it
 * again. */
static inline penstock_status_t cxlfinal(cxl_memory_t* memory) {
  penstock_status_t status = PENSTOCK_OK;
  uint32_t rank;
  if (memory->rank != 0) status = cxl_memory_ring(memory, cxl_memory_line(memory->rank, 1), 1);
  for (rank = 1; memory->rank == 0 && rank < memory->ranks; ++rank) {
    const penstock_status_t left = cxl_memory_await(memory, cxl_memory_line(rank, 1), 1, rank);
    if (left == PENSTOCK_DEADLINE) return left;
    if (left != PENSTOCK_OK) status = left;
  }
  penstock_arena_close(memory->lines);
  penstock_pool_detach(memory->pool);
  memset(memory, 0, sizeof *memory);
  return status;
}

#ifdef __cplusplus
}
#endif

#endif /* PENSTOCK_CXL_MEMORY_H */
