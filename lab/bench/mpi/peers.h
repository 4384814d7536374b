/* The messages that ranks have sent each other through the pool, by their endpoints' own counts. */
#pragma once

#include "common.h"

/* Sums over all ranks so far; on rank 0. */
struct peers {
  double messages, bytes;
};

static inline void peers_add(const char* line, const char* field, double* sum) {
  const char* at = strstr(line, field);
  if (at) *sum += strtod(at + strlen(field), NULL);
}

static inline struct peers peers_read(const char* command) {
  struct peers sum = {0};
  char line[1024];
  FILE* said = popen(command, "r");
  if (!said) fail("--peers: '%s' cannot be run", command);
  while (fgets(line, sizeof line, said)) {
    peers_add(line, "\"messages_sent\":", &sum.messages);
    peers_add(line, "\"bytes_sent\":", &sum.bytes);
  }
  if (pclose(said) != 0) fail("--peers: '%s' failed", command);
  return sum;
}

/* The counts that COMMAND ("penstock ps --peers --json") prints, once they no longer change:
 * endpoints publish their counts now and then, in calls of the MPI. Collective. Zeros if `command`
 * is NULL. */
static inline struct peers peers_so_far(const char* command) {
  struct peers sum = {0};
  int rank, flag;
  if (!command) return sum;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int rests = 0; !rests;) {
    for (const double until = MPI_Wtime() + 0.2; MPI_Wtime() < until;)
      MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
    if (rank == 0) {
      const struct peers now = peers_read(command);
      rests = now.messages == sum.messages;
      sum = now;
    }
    MPI_Bcast(&rests, 1, MPI_INT, 0, MPI_COMM_WORLD);
  }
  return sum;
}

static inline struct peers peers_since(const struct peers* before, const char* command) {
  struct peers sum = peers_so_far(command);
  sum.messages -= before->messages;
  sum.bytes -= before->bytes;
  return sum;
}
