/* Penstock for C: pools, named objects in them, and synchronization by loads and stores.
 *
 * Results    Functions that can fail return a penstock_status_t: PENSTOCK_OK (0) or the kind of
 *            error; penstock_last_error() then describes it. On failure, results that the caller
 *            asked for by pointer are left untouched, except handles, which become NULL.
 * Ownership  The caller owns handles (_t pointers) and gives each back to the function named with
 *            it. Every handle keeps its attachment alive: the process detaches when the pool's
 *            handle and all handles made from it are given back. When the process ends, handles
 *            that are still open are given back after its exit handlers: locks are released and
 *            transactions undone. Communicators and messengers are not, because other ranks may
 *            still need them: the process then stays attached, and the others find it dead. Strings
 *            passed in are copied.
 * Threads    Thread-safe. A handle is given back once and not used afterwards. Calls that other
 *            threads are making with it at that moment keep it until they return, and their waits
 *            end (unavailable). One thread at a time may use a handle of a barrier, lock or undo
 *            log; others are refused.
 * Fork       A child of fork() attaches by itself. Its parent's handles are refused there
 *            (invalid_argument, or 0 or NULL from functions that return no status), and giving them
 *            back does nothing.
 * Units      Sizes in bytes, times in ns. A timeout of 0 means the default (PENSTOCK_TIMEOUT_MS).
 * Memory     Object bytes are ordinary memory of this process, but caches of different hosts are
 *            not coherent: write, then penstock_publish(); penstock_observe(), then read. At any
 *            moment at most one process writes to a 64-byte line.
 *
 * Example    examples/work_queue.c: a lock, a barrier and a doorbell in one object.
 * Source     cMPI sections 3.1 (arena), 3.4 (synchronization), 3.5 (coherence), table 2.
 */
#ifndef PENSTOCK_PENSTOCK_H
#define PENSTOCK_PENSTOCK_H

#include <stddef.h>
#include <stdint.h>

#if defined(PENSTOCK_BUILDING)
#define PENSTOCK_API __attribute__((visibility("default")))
#else
#define PENSTOCK_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define PENSTOCK_MAX_NAME_BYTES 63

typedef enum penstock_status {
  PENSTOCK_OK = 0,
  PENSTOCK_INVALID_ARGUMENT = 1, /* an argument cannot be used */
  PENSTOCK_NOT_FOUND = 2,        /* no such pool or object */
  PENSTOCK_ALREADY_EXISTS = 3,   /* the name is taken */
  PENSTOCK_PERMISSION = 4,       /* the operating system refused */
  PENSTOCK_WRONG_FORMAT = 5,     /* not a pool, another layout version, or damaged */
  PENSTOCK_MISMATCH = 6,         /* two sides disagree (mode) */
  PENSTOCK_NO_SPACE = 7,         /* the pool, /dev/shm or memory is full */
  PENSTOCK_NO_SLOTS = 8,         /* a table of the pool is full */
  PENSTOCK_DEADLINE = 9,         /* a wait reached its deadline */
  PENSTOCK_PEER_DEAD = 10,       /* the awaited process has died */
  PENSTOCK_UNAVAILABLE = 11,     /* try again later */
  PENSTOCK_INTERNAL = 12         /* a defect of Penstock */
} penstock_status_t;

typedef enum penstock_mode {
  PENSTOCK_MODE_DEFAULT = 0,  /* create: software; attach: the pool's mode */
  PENSTOCK_MODE_HARDWARE = 1, /* caches are coherent between all attached processes */
  PENSTOCK_MODE_SOFTWARE = 2, /* no coherence between hosts */
  PENSTOCK_MODE_UNCACHED = 3  /* the mapping itself is uncacheable */
} penstock_mode_t;

typedef enum penstock_lifetime {
  PENSTOCK_LIFETIME_POOL = 1,      /* until destroyed, as long as the pool's memory keeps it */
  PENSTOCK_LIFETIME_PROCESS = 2,   /* until its creator detaches or dies */
  PENSTOCK_LIFETIME_PERSISTENT = 3 /* as pool, and stays when hosts are switched off: persist.h */
} penstock_lifetime_t;

typedef struct penstock_pool penstock_pool_t;         /* given back to penstock_pool_detach */
typedef struct penstock_object penstock_object_t;     /* penstock_arena_close or _destroy */
typedef struct penstock_barrier penstock_barrier_t;   /* penstock_barrier_close */
typedef struct penstock_lock penstock_lock_t;         /* penstock_lock_close */
typedef struct penstock_doorbell penstock_doorbell_t; /* penstock_doorbell_close */

/* "0.1.0". Static. */
PENSTOCK_API const char* penstock_version(void);
/* Stable lower-case name, such as "no_space"; "ok" for PENSTOCK_OK. Static. */
PENSTOCK_API const char* penstock_status_name(int32_t status);
/* Describes the last failed call of this thread: what it found, what it needed, the command that
 * fixes it. Valid until the next call of this thread; "" before the first failure. */
PENSTOCK_API const char* penstock_last_error(void);
/* From now on waits of this thread call `look(user)` some 50 times a second; a nonzero result ends
 * the wait (unavailable). For languages that handle signals between their own instructions. A NULL
 * `look` ends this. Waits that `look` itself makes do not call it. */
PENSTOCK_API void penstock_interrupt_by(int (*look)(void* user), void* user);

/* ---- Pools --------------------------------------------------------------------------------- */
/* SPEC: "/dev/daxX.Y", a file path or "shm:NAME"; several joined by commas interleave. */

typedef struct {
  size_t struct_bytes; /* sizeof(penstock_pool_options_t) */
  uint64_t bytes;      /* of all parts together; 0 with /dev/daxX.Y: the whole device */
  int32_t mode;        /* penstock_mode_t */
  uint32_t
      max_processes;  /* process slots, two for each rank; 0: by the size, for up to 4,096 ranks */
  uint32_t max_nodes; /* most hosts at once; 0: 64 */
  uint32_t permissions; /* at most 0777; 0: 0600 */
  const char* group;    /* group that may attach too; NULL: none */
  int overwrite;        /* replace an existing pool */
} penstock_pool_options_t;

typedef struct {
  size_t struct_bytes;
  int32_t mode;       /* penstock_mode_t; if set, it must be the pool's */
  int32_t rank;       /* rank in the job, shown by `penstock ps`; -1: unknown */
  const char* job;    /* job key; NULL: none */
  int reserved_names; /* nonzero: may name objects "penstock.*"; for Penstock's own libraries */
  uint32_t ranks; /* in the job, which PENSTOCK_NODES then deals to emulated nodes; 0: unknown */
} penstock_attach_options_t;

typedef struct {
  uint64_t id;
  uint64_t bytes;
  penstock_mode_t mode;
  uint32_t max_processes, max_nodes;
  uint64_t created_wall_ns; /* since 1970 */
  uint32_t node;            /* this process's host in the pool */
  uint64_t token;           /* identifies this attachment in other processes' waits; never 0 */
  uint64_t object_bytes_total, object_bytes_used, object_bytes_largest_free;
  uint64_t objects, name_slots; /* includes Penstock's own objects */
} penstock_pool_info_t;

/* Creates a pool and reserves its space at once; attaches no process. Errors: already_exists,
 * invalid_argument, no_space, permission. */
PENSTOCK_API penstock_status_t penstock_pool_create(const char* spec,
                                                    const penstock_pool_options_t* options);
/* Creates a pool in /dev/shm for `ranks` processes on one host. It grows to PENSTOCK_SIZE bytes; by
 * default to 4 GB, or 512 MB a rank, or half of /dev/shm. Its mode is PENSTOCK_MODE's; by default
 * hardware, or software if PENSTOCK_NODES or PENSTOCK_NODE emulates nodes. `spec`: room for its
 * SPEC; 64 bytes are enough. The creating process removes it when it ends; if that process was
 * killed, the next call or the next `penstock run` removes the pool. Errors: as for
 * penstock_pool_create. */
PENSTOCK_API penstock_status_t penstock_pool_create_temporary(uint32_t ranks, char* spec,
                                                              size_t spec_bytes);
/* Returns PENSTOCK_POOL, or "" if it is not set. Valid until the next call of this thread. */
PENSTOCK_API const char* penstock_default_spec(void);
/* Removes the pool's files and segments. Refuses while living processes are attached, unless
 * `force`. */
PENSTOCK_API penstock_status_t penstock_pool_remove(const char* spec, int force);
/* Maps the pool and takes a slot in its process table; frees the objects of processes that it finds
 * dead. Takes milliseconds, however large the pool is. `spec` NULL: PENSTOCK_POOL. `options` NULL:
 * the defaults. Errors: not_found, wrong_format, mismatch, permission, no_slots. */
PENSTOCK_API penstock_status_t penstock_pool_attach(const char* spec,
                                                    const penstock_attach_options_t* options,
                                                    penstock_pool_t** pool);
/* Gives the handle back. NULL is ignored. */
PENSTOCK_API void penstock_pool_detach(penstock_pool_t* pool);
/* Walks the object space: for people and tests, not for hot paths. */
PENSTOCK_API penstock_status_t penstock_pool_info(const penstock_pool_t* pool,
                                                  penstock_pool_info_t* info);

/* Returns 1 while the process of this attachment (`token` of its penstock_pool_info) lives, 0 once
 * it has detached or died. `who`, if not NULL, gets its description, such as "rank 3 (pid 1234 on
 * host a, node 1)", cut at `bytes`. Makes a system call: for waits that last, not for hot paths. */
PENSTOCK_API int penstock_pool_alive(const penstock_pool_t* pool, uint64_t token, char* who,
                                     size_t bytes);

/* Attaches to PENSTOCK_POOL. The process has one such attachment and counts its users: it ends when
 * penstock_default_detach has been called as often. */
PENSTOCK_API penstock_status_t penstock_default_attach(void);
PENSTOCK_API void penstock_default_detach(void);
/* Returns the shared attachment, which must not be detached; NULL if there is none. */
PENSTOCK_API penstock_pool_t* penstock_default_pool(void);

/* ---- Arena: named objects ------------------------------------------------------------------ */
/* Names have 1 to 63 bytes. Any process of any host creates, opens and destroys. Names that begin
 * with "penstock." are reserved for Penstock's own objects: these are not listed, and a call that
 * names one fails (invalid_argument). */

typedef struct {
  size_t struct_bytes;
  int32_t lifetime;   /* penstock_lifetime_t; 0: pool */
  uint64_t alignment; /* in the pool; a power of two up to 2 MiB; 0: 64 */
  int skip_zeroing;   /* contents are undefined instead of zero */
  int open_existing;  /* opens an object of that name and size if there is one */
} penstock_object_options_t;

typedef struct {
  const char* name; /* valid as long as the handle, or during the visit */
  void* data;       /* in this process; other processes map the pool elsewhere */
  uint64_t bytes;
  uint64_t offset;     /* in the pool: the same in every process */
  uint64_t generation; /* distinguishes it from a later object of the same name */
} penstock_object_info_t;

/* Creates an object. Its contents are zero unless `skip_zeroing` is set. `options` NULL: the
 * defaults. Takes the pool's lock. Errors: already_exists, invalid_argument, no_space, no_slots;
 * unavailable if the pool cannot keep a persistent object. */
PENSTOCK_API penstock_status_t penstock_arena_create(penstock_pool_t* pool, const char* name,
                                                     uint64_t bytes,
                                                     const penstock_object_options_t* options,
                                                     penstock_object_t** object);
/* Opens an object by name. Takes no lock. Does not observe: do so before reading what the creator
 * published. Errors: not_found, wrong_format. */
PENSTOCK_API penstock_status_t penstock_arena_open(penstock_pool_t* pool, const char* name,
                                                   penstock_object_t** object);
/* Gives the handle back; the object stays. Writes back unpublished stores of this process and drops
 * its copies. NULL is ignored. */
PENSTOCK_API void penstock_arena_close(penstock_object_t* object);
/* Removes the name and frees the space at once: all users must have agreed not to touch the object,
 * and users on other hosts must have published their stores. Gives the handle back, also on
 * failure. Errors: not_found if another process has destroyed it; unavailable while another
 * process's undo log holds it, or a transaction changes it. */
PENSTOCK_API penstock_status_t penstock_arena_destroy(penstock_object_t* object);
/* The same, but the handle stays, to be given to penstock_arena_close. */
PENSTOCK_API penstock_status_t penstock_arena_remove(penstock_object_t* object);
/* Calls `visit` for every object of users, in the order of their names. */
PENSTOCK_API penstock_status_t penstock_arena_list(penstock_pool_t* pool,
                                                   void (*visit)(const penstock_object_info_t* info,
                                                                 void* user),
                                                   void* user);
/* Finds the dead, frees their objects and space that a crash left unreachable; with `dry_run` only
 * counts. The results may be NULL. */
PENSTOCK_API penstock_status_t penstock_arena_collect(penstock_pool_t* pool, int dry_run,
                                                      uint32_t* processes, uint32_t* objects,
                                                      uint64_t* bytes);
/* Describes the object. Never fails; no device access. */
PENSTOCK_API void penstock_object_info(const penstock_object_t* object,
                                       penstock_object_info_t* info);
PENSTOCK_API void* penstock_object_data(const penstock_object_t* object);
PENSTOCK_API uint64_t penstock_object_bytes(const penstock_object_t* object);

/* ---- Memory -------------------------------------------------------------------------------- */
/* Errors of all four: invalid_argument if the bytes do not lie in the pool. */

/* On return this process's stores to [at, at + bytes) are at the device, before anything that it
 * publishes later. Writes whole lines: no other host may have written to them meanwhile. */
PENSTOCK_API penstock_status_t penstock_publish(penstock_pool_t* pool, const void* at,
                                                uint64_t bytes);
/* Later loads of [at, at + bytes) see all that others published before the call. Stores of this
 * process to these lines that it has not published may be lost. */
PENSTOCK_API penstock_status_t penstock_observe(penstock_pool_t* pool, const void* at,
                                                uint64_t bytes);
/* Copies from private memory into the pool past the caches and publishes: faster than stores and
 * penstock_publish for more than a few lines. `to` needs no alignment. The bytes are at the device
 * on return, before anything that is published later. Within one line the last 8 bytes arrive last.
 */
PENSTOCK_API penstock_status_t penstock_write(penstock_pool_t* pool, void* to, const void* from,
                                              uint64_t bytes);
/* Observes and copies into private memory. */
PENSTOCK_API penstock_status_t penstock_read(penstock_pool_t* pool, void* to, const void* from,
                                             uint64_t bytes);

/* ---- Synchronization in an object ---------------------------------------------------------- */
/* These are made of lines in an object that all participants open; no atomic instruction touches
 * the pool. `offset` is within the object and a multiple of 64. The lines must be zero at first
 * (those of a new object are), and serve no other purpose while a participant is left. Errors of
 * opening: invalid_argument (does not fit the object, self not below participants). */

/* Barrier: one line for each participant. */
PENSTOCK_API uint64_t penstock_barrier_bytes(uint32_t participants);
/* `self`: 0 .. participants - 1; each is opened once per zeroed object. */
PENSTOCK_API penstock_status_t penstock_barrier_open(const penstock_object_t* object,
                                                     uint64_t offset, uint32_t participants,
                                                     uint32_t self, penstock_barrier_t** barrier);
/* Blocks until all participants have entered this round. What any of them published before is
 * visible to what any observes after. Errors: deadline, peer_dead; both name the participant. */
PENSTOCK_API penstock_status_t penstock_barrier_wait(penstock_barrier_t* barrier,
                                                     uint64_t timeout_ns);
/* Ends the waits of other threads on this handle, and later waits (unavailable). For a program that
 * closes the handle only after these threads have left it. */
PENSTOCK_API void penstock_barrier_cancel(penstock_barrier_t* barrier);
PENSTOCK_API void penstock_barrier_close(penstock_barrier_t* barrier);

/* Lock (Lamport's bakery): one line for each participant; dead participants are passed over. */
PENSTOCK_API uint64_t penstock_lock_bytes(uint32_t participants);
/* `self`: one process at a time acts for a participant. */
PENSTOCK_API penstock_status_t penstock_lock_open(const penstock_object_t* object, uint64_t offset,
                                                  uint32_t participants, uint32_t self,
                                                  penstock_lock_t** lock);
/* Acquires the lock. Not recursive. What earlier holders published is visible to later observes.
 * Errors: deadline. */
PENSTOCK_API penstock_status_t penstock_lock_acquire(penstock_lock_t* lock, uint64_t timeout_ns);
/* The same, shared with all other readers: for a process that only reads. */
PENSTOCK_API penstock_status_t penstock_lock_acquire_shared(penstock_lock_t* lock,
                                                            uint64_t timeout_ns);
/* Releases the lock. What the holder published before is visible to the next holder. Errors:
 * invalid_argument if this handle does not hold the lock. */
PENSTOCK_API penstock_status_t penstock_lock_release(penstock_lock_t* lock);
/* As penstock_barrier_cancel. */
PENSTOCK_API void penstock_lock_cancel(penstock_lock_t* lock);
/* Closes the handle; releases the lock if it is still held. */
PENSTOCK_API void penstock_lock_close(penstock_lock_t* lock);

/* Doorbell: one line, one ringer, any number of listeners; its number only grows. */
PENSTOCK_API uint64_t penstock_doorbell_bytes(void);
PENSTOCK_API penstock_status_t penstock_doorbell_open(const penstock_object_t* object,
                                                      uint64_t offset,
                                                      penstock_doorbell_t** doorbell);
/* Ringer only. A listener that has read this number and then observes sees all that the ringer
 * published before. Errors: invalid_argument (smaller than the number before, as far as the handle
 * knows it: the number that it has rung last, and at its first ring the doorbell's). So a process
 * that becomes the ringer after another one opens a handle of its own then. One thread rings. */
PENSTOCK_API penstock_status_t penstock_doorbell_ring(penstock_doorbell_t* doorbell,
                                                      uint64_t number);
/* The latest number, 0 at first. One device access. */
PENSTOCK_API uint64_t penstock_doorbell_read(const penstock_doorbell_t* doorbell);
/* Waits until the number is >= `number`. `ringer`: its token (penstock_pool_info), whose death ends
 * the wait; 0: unknown. Errors: deadline, peer_dead. */
PENSTOCK_API penstock_status_t penstock_doorbell_wait(const penstock_doorbell_t* doorbell,
                                                      uint64_t number, uint64_t timeout_ns,
                                                      uint64_t ringer);
/* As penstock_barrier_cancel. */
PENSTOCK_API void penstock_doorbell_cancel(penstock_doorbell_t* doorbell);
PENSTOCK_API void penstock_doorbell_close(penstock_doorbell_t* doorbell);

#ifdef __cplusplus
}
#endif

#endif /* PENSTOCK_PENSTOCK_H */
