/* The baselines: rings. Blocks go through TCP sockets between nodes, and through memory within one.
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "node.h"

/* A block in transit. */
typedef struct {
  char* at;
  size_t bytes, done;
} passage_t;

static char* letter_to(const process_t* process, int rank) {
  const job_t* job = process->job;
  return process->letters + (size_t)local_of(job, process->mapping, rank) * job->bytes;
}

/* Returns true when all of it has left. */
static int send_some(process_t* process, passage_t* out, int next, uint64_t turn) {
  if (process->to_next >= 0) {
    const ssize_t sent = send(process->to_next, out->at + out->done, out->bytes - out->done,
                              MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN) give_up(process, "send", strerror(errno));
    if (sent > 0) out->done += (size_t)sent;
    return out->done == out->bytes;
  }
  mailbox_t* box = &process->shared->boxes[next];
  if (atomic_load(&box->taken) + 1 < turn) return 0;
  memcpy(letter_to(process, next), out->at, out->bytes);
  atomic_store(&box->sent, turn);
  return 1;
}

static int receive_some(process_t* process, passage_t* in, uint64_t turn) {
  if (process->from_previous >= 0) {
    const ssize_t got =
        recv(process->from_previous, in->at + in->done, in->bytes - in->done, MSG_DONTWAIT);
    if (got == 0) give_up(process, "recv", "the neighbour has gone");
    if (got < 0 && errno != EAGAIN) give_up(process, "recv", strerror(errno));
    if (got > 0) in->done += (size_t)got;
    return in->done == in->bytes;
  }
  mailbox_t* box = &process->shared->boxes[process->rank];
  if (atomic_load(&box->sent) < turn) return 0;
  memcpy(in->at, letter_to(process, process->rank), in->bytes);
  atomic_store(&box->taken, turn);
  return 1;
}

/* Sends one block to the next of the ring and takes one from the previous, both at once. */
static void exchange(process_t* process, passage_t out, passage_t in, int next, uint64_t turn) {
  int sent = 0, received = 0;
  unsigned looks = 0;
  if (process->to_next >= 0) {
    process->counts->between_nodes_out += out.bytes;
    ++process->counts->messages;
  }
  if (process->from_previous >= 0) process->counts->between_nodes_in += in.bytes;
  while (!sent || !received) {
    const size_t before = out.done + in.done;
    sent = sent || send_some(process, &out, next, turn);
    received = received || receive_some(process, &in, turn);
    if (out.done + in.done != before) looks = 0;
    if (!sent || !received) pause_between_looks(process, looks++);
  }
}

/* `members` form a ring, in which this one is number `self`; `all` holds blocks of `bytes`, by
 * number. `before`: messages that have already gone through the mailboxes of this ring. */
static void ring(process_t* process, int members, int self, char* all, size_t bytes,
                 uint64_t before) {
  const int next = (self + 1) % members;
  for (int step = 0; step + 1 < members; ++step) {
    const int out = (self - step + members) % members, in = (self - step - 1 + members) % members;
    exchange(process, (passage_t){all + (size_t)out * bytes, bytes, 0},
             (passage_t){all + (size_t)in * bytes, bytes, 0}, next, before + (uint64_t)step + 1);
  }
}

void ring_of_ranks(process_t* process) {
  const size_t bytes = process->job->bytes;
  const int ranks = ranks_of(process->job);
  memcpy(process->all + (size_t)process->rank * bytes, process->own, bytes);
  ring(process, ranks, process->rank, process->all, bytes, process->steps[process->mapping]);
  process->steps[process->mapping] += (uint64_t)ranks - 1;
}

/* Into the node's memory; a ring of the leaders, with all data of a node; out of it. */
void ring_of_leaders(process_t* process) {
  const job_t* job = process->job;
  const int node = process->rank / job->per_node;
  const size_t of_node = (size_t)job->per_node * job->bytes;
  memcpy(process->node_memory + (size_t)process->rank * job->bytes, process->own, job->bytes);
  meet_node(process);
  if (process->rank % job->per_node == 0 && job->nodes > 1)
    ring(process, job->nodes, node, process->node_memory, of_node, 0);
  meet_node(process);
  memcpy(process->all, process->node_memory, (size_t)job->nodes * of_node);
  meet_node(process);
}
