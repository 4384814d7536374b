/* Waits and meetings of the processes of this machine. */
#define _DEFAULT_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "node.h"

void give_up(const process_t* process, const char* what, const char* why) {
  fprintf(stderr, "rank %d: %s: %s\n", process->rank, what, why);
  process->shared->failed = 1;
  exit(1);
}

void pause_between_looks(const process_t* process, unsigned looks) {
  const struct timespec pause = {0, 50000};
  if (looks < 50) return;
  if (process->shared->failed) exit(1);
  looks < 200 ? (void)sched_yield() : (void)nanosleep(&pause, NULL);
}

static void meet(process_t* process, _Atomic uint64_t* come, uint64_t members, uint64_t* round) {
  const uint64_t wanted = members * ++*round;
  unsigned looks = 0;
  atomic_fetch_add(come, 1);
  while (atomic_load(come) < wanted) pause_between_looks(process, looks++);
}

void meet_all(process_t* process) {
  meet(process, &process->shared->all, (uint64_t)ranks_of(process->job), &process->rounds_all);
}

void meet_node(process_t* process) {
  const int node = node_of(process->job, process->mapping, process->rank);
  meet(process, &process->shared->of[node], (uint64_t)process->job->per_node,
       &process->rounds_node);
}
