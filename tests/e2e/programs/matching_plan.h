/* Calls of several ranks that print_matching_plan has drawn, and the messages they must get. */
#ifndef MATCHING_PLAN_H
#define MATCHING_PLAN_H

#include <stdio.h>
#include <stdlib.h>

enum { max_calls = 200 }; /* of a rank in a round */

struct planned {
  int round, rank, is_send, peer, tag;
  size_t bytes, number;
  int sender;
};

static inline unsigned char planned_byte(const struct planned* call, size_t at) {
  return (unsigned char)(call->number * 31 + at * 7 + at / 251);
}
static inline void fill(const struct planned* call, unsigned char* data) {
  for (size_t i = 0; i < call->bytes; ++i) data[i] = planned_byte(call, i);
}
static inline void check(const struct planned* call, const unsigned char* data) {
  for (size_t i = 0; i < call->bytes; ++i)
    if (data[i] != planned_byte(call, i))
      fprintf(stderr, "round %d, rank %d: byte %zu is not of message %zu\n", call->round,
              call->rank, i, call->number),
          exit(1);
}

/* Calls `play` for each round with the calls of this rank. */
static inline void play_plan(const char* path, int rank,
                             void (*play)(const struct planned*, int count)) {
  struct planned calls[max_calls], next;
  int count = 0, round = 0;
  FILE* const file = fopen(path, "r");
  if (file == NULL) perror(path), exit(1);
  while (fscanf(file, "%d %d %d %d %d %zu %zu %d", &next.round, &next.rank, &next.is_send,
                &next.peer, &next.tag, &next.bytes, &next.number, &next.sender) == 8) {
    if (next.round != round) play(calls, count), count = 0;
    round = next.round;
    if (next.rank == rank) calls[count++] = next;
  }
  play(calls, count);
  fclose(file);
}

#endif
