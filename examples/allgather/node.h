/* Shared by the programs of the all-gather: the job, its ranks and nodes, counters, and memory that
 * the processes of this machine share in place of each node's own. */
#ifndef ALLGATHER_NODE_H
#define ALLGATHER_NODE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { MAX_RANKS = 96, MAX_FORMS = 5 };

enum { block, cyclic };

/* Equal in all processes. */
typedef struct {
  int nodes, per_node; /* N and L */
  size_t bytes;        /* M: bytes of each rank */
  int repeat;
} job_t;

/* Counts of one run of an algorithm, by rank. */
typedef struct {
  uint64_t between_nodes_out, between_nodes_in; /* bytes through the link of the rank's node */
  uint64_t messages;                            /* blocks that this rank sent to another node */
  double cpu_seconds, seconds;
  int wrong;
} counts_t;

/* A place for one message from a rank to the next one on its node. */
typedef struct {
  _Alignas(64) _Atomic uint64_t sent;
  _Alignas(64) _Atomic uint64_t taken;
} mailbox_t;

/* In memory that all processes map. The barriers work on this machine only; no measurement includes
 * one. */
typedef struct {
  _Atomic int failed;                          /* some process gave up */
  _Alignas(64) _Atomic uint64_t all;           /* arrivals so far at the barrier of all processes */
  _Alignas(64) _Atomic uint64_t of[MAX_RANKS]; /* the same for each node's barrier */
  counts_t counts[MAX_FORMS][MAX_RANKS];       /* by form and process */
  mailbox_t boxes[MAX_RANKS];
} shared_t;

/* The state of one process. */
typedef struct {
  const job_t* job;
  shared_t* shared;
  char* node_memory;          /* its node's memory: room for all ranks' blocks */
  char* letters;              /* its node's mailboxes: a block for each of its ranks */
  int rank;                   /* its rank in the present mapping */
  int mapping;                /* block or cyclic */
  int to_next, from_previous; /* sockets; -1: the neighbour is on the same node */
  char *own, *all;            /* M bytes; M bytes for each rank */
  uint64_t rounds_all, rounds_node;
  uint64_t steps[2]; /* steps of the ring of all ranks, by mapping */
  counts_t* counts;
} process_t;

static inline int ranks_of(const job_t* job) {
  return job->nodes * job->per_node;
}
static inline int node_of(const job_t* job, int mapping, int rank) {
  return mapping == block ? rank / job->per_node : rank % job->nodes;
}
/* The rank's number within its node. */
static inline int local_of(const job_t* job, int mapping, int rank) {
  return mapping == block ? rank % job->per_node : rank / job->nodes;
}

/* Prints the error on standard error, makes the others end, and ends this process. */
_Noreturn void give_up(const process_t* process, const char* what, const char* why);
/* Pauses between two looks of a wait: spins, then yields, then sleeps. Ends the process if another
 * has given up. */
void pause_between_looks(const process_t* process, unsigned looks);
void meet_all(process_t* process);
void meet_node(process_t* process);

/* The algorithms. Each fills `all` from every rank's `own`, and counts. */
void ring_of_ranks(process_t* process);
void ring_of_leaders(process_t* process);
void through_pool(process_t* process, int shares);

/* Attaches to the pool of PENSTOCK_POOL as a rank of a node of its own; and detaches. */
void open_pool(process_t* process, const char* job_name);
void close_pool(process_t* process);

#endif
