/* Penstock for C: what outlives processes and hosts, and changes that happen as a whole or not at
 * all.
 *
 * Persistent objects (PENSTOCK_LIFETIME_PERSISTENT) stay when every process has ended and the hosts
 * were switched off, where the pool can keep them (penstock_pool_durability). A transaction changes
 * bytes of objects so that all of its changes are there afterwards or none, whenever its process is
 * killed; a checkpoint saves a large array in the same way, for half the traffic.
 *
 * Results, ownership, units: as penstock.h.
 * Threads    One undo log or checkpoint handle is used by one thread at a time; a process may have
 *            several.
 * Memory     penstock_tx_commit and penstock_checkpoint_commit return when what they committed is
 * at the device, or in the file, and other hosts see it. Before bytes of an object are stored to,
 * they are added to a transaction: penstock_tx_add observes them. Deaths     Whoever attaches next,
 * changes or reads the object undoes what a dead process had under way. If its host lives on, that
 * host's caches are flushed first.
 *
 * Example    examples/ledger.c: accounts whose sum never changes; examples/checkpoint: an MPI
 * program that goes on where it was killed. Source     The undo log follows libpmemobj's;
 * docs/protocols/persistence.md draws it.
 */
#ifndef PENSTOCK_PERSIST_H
#define PENSTOCK_PERSIST_H

#include <penstock/penstock.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Persistent objects -------------------------------------------------------------------- */

typedef enum penstock_durability {
  PENSTOCK_DURABILITY_NONE = 0, /* in a host's memory (shm:, tmpfs): nothing outlives its boot */
  PENSTOCK_DURABILITY_FILE = 1, /* in a file by the page cache: what was synced to it (msync) */
  PENSTOCK_DURABILITY_DEVICE =
      2 /* what has reached the device: devdax, a file mapped with MAP_SYNC */
} penstock_durability_t;

/* What the pool keeps when hosts are switched off. No device access. */
PENSTOCK_API penstock_durability_t penstock_pool_durability(const penstock_pool_t* pool);

/* Makes an object persistent, or of another lifetime again; one of lifetime process belongs to this
 * process then. Takes the pool's lock. Errors: not_found; invalid_argument, lifetime process of one
 * that transactions have changed; unavailable, where the pool keeps nothing
 * and PENSTOCK_LIFETIME_PERSISTENT is asked for (penstock_arena_create says the same). */
PENSTOCK_API penstock_status_t penstock_object_set_lifetime(penstock_object_t* object,
                                                            penstock_lifetime_t lifetime);
/* As it is now, whoever has changed it. Errors: not_found. */
PENSTOCK_API penstock_status_t penstock_object_lifetime(const penstock_object_t* object,
                                                        penstock_lifetime_t* lifetime);

/* ---- Transactions -------------------------------------------------------------------------- */

typedef struct penstock_undo_log penstock_undo_log_t; /* penstock_undo_log_close */

/* An undo log of `bytes` in the pool, whole lines, at least 16384; 0: 1 MiB. What a transaction
 * adds must fit into it, with a line for each addition. Takes the pool's lock. Errors: no_slots,
 * no_space, invalid_argument. */
PENSTOCK_API penstock_status_t penstock_undo_log_open(penstock_pool_t* pool, uint64_t bytes,
                                                      penstock_undo_log_t** log);
/* Aborts what is under way, gives back its objects and its space. NULL is ignored. */
PENSTOCK_API void penstock_undo_log_close(penstock_undo_log_t* log);

/* No device access. Errors: invalid_argument, where a transaction is under way. */
PENSTOCK_API penstock_status_t penstock_tx_begin(penstock_undo_log_t* log);
/* Before [offset, offset + bytes) of the object is stored to: keeps the old bytes, in whole lines,
 * and makes this log the object's one writer until penstock_tx_release. One serialized device
 * access and a fence; the first time for an object the pool's lock too. Errors: invalid_argument
 * (no transaction, not in the object, lifetime process), no_space (the log is too small),
 * unavailable (another process writes the object, named). */
PENSTOCK_API penstock_status_t penstock_tx_add(penstock_undo_log_t* log,
                                               const penstock_object_t* object, uint64_t offset,
                                               uint64_t bytes);
/* All added bytes are at the device, and stay; others see them. Two fences that wait for the
 * device, the data once. Errors: invalid_argument; unavailable, when the pool's file cannot be
 * written. */
PENSTOCK_API penstock_status_t penstock_tx_commit(penstock_undo_log_t* log);
/* All added bytes are as they were. */
PENSTOCK_API penstock_status_t penstock_tx_abort(penstock_undo_log_t* log);
/* Another log may write the object; NULL: all that this log has. Between transactions only. */
PENSTOCK_API penstock_status_t penstock_tx_release(penstock_undo_log_t* log,
                                                   const penstock_object_t* object);

/* Copies bytes of an object as one transaction left them, on any host, while another changes them.
 * `version`, if not NULL, gets a number that grows with each transaction; 0 before the first. Waits
 * while the object is being changed. Errors: invalid_argument, deadline, unavailable. */
PENSTOCK_API penstock_status_t penstock_tx_read(const penstock_object_t* object, void* to,
                                                uint64_t offset, uint64_t bytes,
                                                uint64_t timeout_ns, uint64_t* version);

/* Undoes transactions of processes that have died. Attaching does so; call it to be told of deaths
 * since. `undone`: logs that are gone now; `waiting`: those that wait until a host has flushed its
 * caches (penstock pool gc on that host). Both may be NULL. Errors: deadline, wrong_format. */
PENSTOCK_API penstock_status_t penstock_tx_recover(penstock_pool_t* pool, uint32_t* undone,
                                                   uint32_t* waiting);

/* ---- Checkpoints --------------------------------------------------------------------------- */
/* Two copies of an array, and a line that says which is valid. The program stores its data when it
 * likes; several processes write parts of one version, and one of them commits it when all have
 * flushed. Those of an earlier job that still run must not write any more. */

typedef struct penstock_checkpoint penstock_checkpoint_t; /* penstock_checkpoint_close, _destroy */

typedef struct {
  uint64_t version; /* grows by one with each commit; 0: nothing was committed yet */
  uint64_t tag;     /* as given to the commit of that version */
  uint64_t bytes;   /* of one copy: what was asked for, up to whole pages */
} penstock_checkpoint_info_t;

/* An object of that name with two copies of `bytes`, or the one that is there, of the same size.
 * `lifetime` 0: persistent; pool: outlives processes, not hosts. Errors: already_exists (another
 * size), no_space, unavailable (the pool keeps nothing), wrong_format (what is there is none). */
PENSTOCK_API penstock_status_t penstock_checkpoint_create(penstock_pool_t* pool, const char* name,
                                                          uint64_t bytes,
                                                          penstock_lifetime_t lifetime,
                                                          penstock_checkpoint_t** checkpoint);
/* Errors: not_found, also of one that is just being made; wrong_format, where the object is no
 * checkpoint. */
PENSTOCK_API penstock_status_t penstock_checkpoint_open(penstock_pool_t* pool, const char* name,
                                                        penstock_checkpoint_t** checkpoint);
/* Gives the handle back; what was committed stays. NULL is ignored. */
PENSTOCK_API void penstock_checkpoint_close(penstock_checkpoint_t* checkpoint);
/* Removes both copies and the handle. Errors: not_found. */
PENSTOCK_API penstock_status_t penstock_checkpoint_destroy(penstock_checkpoint_t* checkpoint);
/* The same, but the handle stays, to be given to penstock_checkpoint_close. */
PENSTOCK_API penstock_status_t penstock_checkpoint_remove(penstock_checkpoint_t* checkpoint);

/* What is valid now. One serialized device access. Errors: wrong_format. */
PENSTOCK_API penstock_status_t penstock_checkpoint_info(const penstock_checkpoint_t* checkpoint,
                                                        penstock_checkpoint_info_t* info);
/* Begins the version after the valid one; each process that writes calls it. `version` may be
 * NULL. */
PENSTOCK_API penstock_status_t penstock_checkpoint_begin(penstock_checkpoint_t* checkpoint,
                                                         uint64_t* version);
/* Copies into the version that was begun, past the caches. Processes that write at once write
 * different aligned words of 8 bytes. Errors: invalid_argument; mismatch, when another version was
 * committed since it was begun. */
PENSTOCK_API penstock_status_t penstock_checkpoint_write(penstock_checkpoint_t* checkpoint,
                                                         uint64_t offset, const void* from,
                                                         uint64_t bytes);
/* What this handle has written is at the device, or in the file. Then whoever commits is told, by a
 * barrier for example. */
PENSTOCK_API penstock_status_t penstock_checkpoint_flush(penstock_checkpoint_t* checkpoint);
/* The version that was begun is the valid one. By one process, when all that have written have
 * flushed; it flushes itself. Takes the pool's lock. Errors: mismatch. */
PENSTOCK_API penstock_status_t penstock_checkpoint_commit(penstock_checkpoint_t* checkpoint,
                                                          uint64_t tag);
/* Copies out of the valid version, whose number penstock_checkpoint_info gave. Errors:
 * invalid_argument; unavailable, when another was committed meanwhile. */
PENSTOCK_API penstock_status_t penstock_checkpoint_read(const penstock_checkpoint_t* checkpoint,
                                                        uint64_t version, void* to, uint64_t offset,
                                                        uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* PENSTOCK_PERSIST_H */
