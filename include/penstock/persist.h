/* Penstock for C: objects that outlive processes and hosts, and changes that happen as a whole or
 * not at all.
 *
 * Persistent objects (PENSTOCK_LIFETIME_PERSISTENT) stay after every process has ended and the
 * hosts were switched off, if the pool can keep them (penstock_pool_durability). A transaction
 * changes bytes of objects so that afterwards all of its changes are there or none, even if its
 * process is killed; a checkpoint saves a large array in the same way, for half the traffic.
 *
 * Results, ownership, units: as penstock.h.
 * Threads    One thread at a time uses an undo log or checkpoint handle; a process may have
 *            several.
 * Memory     When penstock_tx_commit or penstock_checkpoint_commit returns, the committed bytes are
 *            at the device, or in the file, and other hosts see them. Before a program stores to
 *            bytes of an object, it adds them to a transaction: penstock_tx_add observes them.
 * Deaths     The next process that attaches, or that changes or reads the object, undoes the
 *            unfinished transaction of a dead process. If the dead process's host lives on, that
 *            host first flushes its caches.
 *
 * Example    examples/ledger.c: accounts whose sum never changes; examples/checkpoint: an MPI
 *            program that goes on where it was killed.
 * Source     The undo log follows libpmemobj's; docs/protocols/persistence.md draws it.
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
  PENSTOCK_DURABILITY_FILE = 1, /* in a file, by the page cache: keeps what was synced (msync) */
  PENSTOCK_DURABILITY_DEVICE =
      2 /* keeps what reached the device: devdax, or a file mapped with MAP_SYNC */
} penstock_durability_t;

/* Says what the pool keeps when hosts are switched off. No device access. */
PENSTOCK_API penstock_durability_t penstock_pool_durability(const penstock_pool_t* pool);

/* Changes an object's lifetime. An object of lifetime process then belongs to this process. Takes
 * the pool's lock. Errors: not_found; invalid_argument for lifetime process if transactions have
 * changed the object; unavailable for PENSTOCK_LIFETIME_PERSISTENT if the pool keeps nothing
 * (penstock_arena_create says the same). */
PENSTOCK_API penstock_status_t penstock_object_set_lifetime(penstock_object_t* object,
                                                            penstock_lifetime_t lifetime);
/* Reads the current lifetime, which any process may have changed. Errors: not_found. */
PENSTOCK_API penstock_status_t penstock_object_lifetime(const penstock_object_t* object,
                                                        penstock_lifetime_t* lifetime);

/* ---- Transactions -------------------------------------------------------------------------- */

typedef struct penstock_undo_log penstock_undo_log_t; /* penstock_undo_log_close */

/* Makes an undo log of `bytes` in the pool: whole lines, at least 16384; 0: 1 MiB. It must hold all
 * that a transaction adds, and a line for each addition. Takes the pool's lock. Errors: no_slots,
 * no_space, invalid_argument. */
PENSTOCK_API penstock_status_t penstock_undo_log_open(penstock_pool_t* pool, uint64_t bytes,
                                                      penstock_undo_log_t** log);
/* Aborts an unfinished transaction, gives back its objects and its space. NULL is ignored. */
PENSTOCK_API void penstock_undo_log_close(penstock_undo_log_t* log);

/* Begins a transaction. No device access. Errors: invalid_argument if one is under way. */
PENSTOCK_API penstock_status_t penstock_tx_begin(penstock_undo_log_t* log);
/* Call it before you store to [offset, offset + bytes) of the object: keeps the old bytes, in whole
 * lines, and makes this log the object's only writer until penstock_tx_release. One serialized
 * device access and a fence; the first time for an object also the pool's lock. Errors:
 * invalid_argument (no transaction, not in the object, lifetime process), no_space (the log is too
 * small), unavailable (another process writes the object; the message names it). */
PENSTOCK_API penstock_status_t penstock_tx_add(penstock_undo_log_t* log,
                                               const penstock_object_t* object, uint64_t offset,
                                               uint64_t bytes);
/* Commits: on return all added bytes are at the device and stay, and others see them. Two fences
 * that wait for the device; the data travels once. Errors: invalid_argument; unavailable if the
 * pool's file cannot be written. */
PENSTOCK_API penstock_status_t penstock_tx_commit(penstock_undo_log_t* log);
/* Aborts: restores the old contents of all added bytes. */
PENSTOCK_API penstock_status_t penstock_tx_abort(penstock_undo_log_t* log);
/* Lets another log write the object; NULL: every object of this log. Between transactions only. */
PENSTOCK_API penstock_status_t penstock_tx_release(penstock_undo_log_t* log,
                                                   const penstock_object_t* object);

/* Copies bytes of an object as one transaction left them, on any host, even while another
 * transaction changes them. `version`, if not NULL, gets a number that grows with each transaction;
 * 0 before the first. Waits while the object is being changed. Errors: invalid_argument, deadline,
 * unavailable. */
PENSTOCK_API penstock_status_t penstock_tx_read(const penstock_object_t* object, void* to,
                                                uint64_t offset, uint64_t bytes,
                                                uint64_t timeout_ns, uint64_t* version);

/* Undoes transactions of processes that have died. Attaching does so too; call it for deaths since.
 * `undone`: logs that were undone and removed; `waiting`: logs that wait until a host has flushed
 * its caches (penstock pool gc on that host). Both may be NULL. Errors: deadline, wrong_format. */
PENSTOCK_API penstock_status_t penstock_tx_recover(penstock_pool_t* pool, uint32_t* undone,
                                                   uint32_t* waiting);

/* ---- Checkpoints --------------------------------------------------------------------------- */
/* A checkpoint is two copies of an array, and a line that says which copy is valid. The program
 * stores its data at any time; several processes may write parts of one version, and one of them
 * commits it after all have flushed. Processes of an earlier job that still run must not write any
 * more. */

typedef struct penstock_checkpoint penstock_checkpoint_t; /* penstock_checkpoint_close, _destroy */

typedef struct {
  uint64_t version; /* grows by one with each commit; 0: nothing was committed yet */
  uint64_t tag;     /* the tag that was given to the commit of that version */
  uint64_t bytes;   /* of one copy: the size asked for, rounded up to whole pages */
} penstock_checkpoint_info_t;

/* Makes an object of that name with two copies of `bytes`, or opens one of the same size.
 * `lifetime` 0: persistent; pool: outlives processes, not hosts. Errors: already_exists (another
 * size), no_space, unavailable (the pool keeps nothing), wrong_format (the object is no
 * checkpoint). */
PENSTOCK_API penstock_status_t penstock_checkpoint_create(penstock_pool_t* pool, const char* name,
                                                          uint64_t bytes,
                                                          penstock_lifetime_t lifetime,
                                                          penstock_checkpoint_t** checkpoint);
/* Opens a checkpoint. Errors: not_found, also while it is being made; wrong_format if the object is
 * no checkpoint. */
PENSTOCK_API penstock_status_t penstock_checkpoint_open(penstock_pool_t* pool, const char* name,
                                                        penstock_checkpoint_t** checkpoint);
/* Gives the handle back; committed versions stay. NULL is ignored. */
PENSTOCK_API void penstock_checkpoint_close(penstock_checkpoint_t* checkpoint);
/* Removes both copies and the handle. Errors: not_found. */
PENSTOCK_API penstock_status_t penstock_checkpoint_destroy(penstock_checkpoint_t* checkpoint);
/* The same, but the handle stays, to be given to penstock_checkpoint_close. */
PENSTOCK_API penstock_status_t penstock_checkpoint_remove(penstock_checkpoint_t* checkpoint);

/* Describes the valid version. One serialized device access. Errors: wrong_format. */
PENSTOCK_API penstock_status_t penstock_checkpoint_info(const penstock_checkpoint_t* checkpoint,
                                                        penstock_checkpoint_info_t* info);
/* Begins the version after the valid one; each process that writes calls it. `version` may be NULL.
 */
PENSTOCK_API penstock_status_t penstock_checkpoint_begin(penstock_checkpoint_t* checkpoint,
                                                         uint64_t* version);
/* Copies into the version that was begun, past the caches. Processes that write at the same time
 * write different aligned words of 8 bytes. Errors: invalid_argument; mismatch if another version
 * was committed since begin. */
PENSTOCK_API penstock_status_t penstock_checkpoint_write(penstock_checkpoint_t* checkpoint,
                                                         uint64_t offset, const void* from,
                                                         uint64_t bytes);
/* On return all that this handle has written is at the device, or in the file. Tell the committing
 * process after that, by a barrier for example. */
PENSTOCK_API penstock_status_t penstock_checkpoint_flush(penstock_checkpoint_t* checkpoint);
/* Makes the version that was begun the valid one. Called by one process, after all that have
 * written have flushed; flushes this handle itself. Takes the pool's lock. Errors: mismatch. */
PENSTOCK_API penstock_status_t penstock_checkpoint_commit(penstock_checkpoint_t* checkpoint,
                                                          uint64_t tag);
/* Copies out of the valid version, whose number penstock_checkpoint_info gave. Errors:
 * invalid_argument; unavailable if another was committed meanwhile. */
PENSTOCK_API penstock_status_t penstock_checkpoint_read(const penstock_checkpoint_t* checkpoint,
                                                        uint64_t version, void* to, uint64_t offset,
                                                        uint64_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* PENSTOCK_PERSIST_H */
