/* A program for tools on the profiling interface: collectives of all forms with messages among
 * them, a window, memory of MPI, communicators that come and go. It calls each function a fixed
 * number of times, except those that poll. */
#include <mpi.h>
#include <stdio.h>

enum { ROUNDS = 5, WORDS = 700 };
static int rank, wrong = 0;
#define EXPECT(condition)                                                        \
  do {                                                                           \
    if (!(condition) && wrong++ < 3)                                             \
      fprintf(stderr, "rank %d, line %d: not %s\n", rank, __LINE__, #condition); \
  } while (0)

/* In each round a collective and a message are completed in another way. */
static void calls_that_do_not_block(MPI_Comm comm, int round) {
  int self, size, one = 1, sum = -1, told, sent[WORDS], got[WORDS];
  MPI_Comm_rank(comm, &self);
  MPI_Comm_size(comm, &size);
  const int left = (self + size - 1) % size;
  for (int i = 0; i < WORDS; ++i) sent[i] = self + round;
  told = self == 0 ? round : -1;
  MPI_Request all[4];
  MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm, &all[0]);
  MPI_Irecv(got, WORDS, MPI_INT, left, 1, comm, &all[1]);
  MPI_Isend(sent, WORDS, MPI_INT, (self + 1) % size, 1, comm, &all[2]);
  MPI_Ibcast(&told, 1, MPI_INT, 0, comm, &all[3]);
  int over = 0;
  switch (round % 3) {
    case 0:
      MPI_Waitall(4, all, MPI_STATUSES_IGNORE);
      break;
    case 1:
      for (int i = 0; i < 4; ++i) MPI_Wait(&all[i], MPI_STATUS_IGNORE);
      break;
    default:
      while (!over) MPI_Testall(4, all, &over, MPI_STATUSES_IGNORE);
  }
  EXPECT(sum == size && told == round && got[WORDS - 1] == left + round &&
         all[0] == MPI_REQUEST_NULL);
}

static void persistent_calls(MPI_Comm comm) {
#if MPI_VERSION >= 4
  int size, one = 1, sum = 0, over = 0;
  MPI_Comm_size(comm, &size);
  MPI_Request request;
  MPI_Allreduce_init(&one, &sum, 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &request);
  MPI_Start(&request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  EXPECT(sum == size);
  sum = 0;
  MPI_Startall(1, &request);
  while (!over) MPI_Test(&request, &over, MPI_STATUS_IGNORE);
  EXPECT(sum == size);
  MPI_Request_free(&request);
  EXPECT(request == MPI_REQUEST_NULL);
#else
  (void)comm;
#endif
}

static void window(MPI_Comm comm) {
  int self, size, *memory, word, got = -1, more = 5;
  MPI_Comm_rank(comm, &self);
  MPI_Comm_size(comm, &size);
  const int right = (self + 1) % size, left = (self + size - 1) % size;
  MPI_Win win;
  MPI_Win_allocate(8 * sizeof *memory, sizeof *memory, MPI_INFO_NULL, comm, &memory, &win);
  memory[7] = 0;
  for (int i = 0; i < ROUNDS; ++i) {
    word = 10 * self + i;
    MPI_Win_fence(0, win);
    MPI_Put(&word, 1, MPI_INT, right, i, 1, MPI_INT, win);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, win);
    EXPECT(memory[i] == 10 * left + i);
    MPI_Win_lock(MPI_LOCK_EXCLUSIVE, right, 0, win);
    MPI_Get(&got, 1, MPI_INT, right, i, 1, MPI_INT, win);
    MPI_Win_unlock(right, win);
    EXPECT(got == word);
    MPI_Win_lock(MPI_LOCK_SHARED, right, 0, win);
    MPI_Accumulate(&more, 1, MPI_INT, right, 7, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_unlock(right, win);
  }
  MPI_Win_fence(0, win);
  EXPECT(memory[7] == 5 * ROUNDS);
  MPI_Win_free(&win);
}

static void everything(MPI_Comm comm) {
  int self, size, sum, *memory;
  MPI_Comm_rank(comm, &self);
  MPI_Comm_size(comm, &size);
  MPI_Alloc_mem(WORDS * sizeof *memory, MPI_INFO_NULL, &memory);
  for (int round = 0; round < ROUNDS; ++round) {
    MPI_Allreduce(&self, &sum, 1, MPI_INT, MPI_SUM, comm);
    EXPECT(sum == size * (size - 1) / 2);
    for (int i = 0; i < WORDS; ++i) memory[i] = self == round % size ? round : -1;
    MPI_Bcast(memory, WORDS, MPI_INT, round % size, comm);
    EXPECT(memory[WORDS - 1] == round);
    MPI_Barrier(comm);
    calls_that_do_not_block(comm, round);
    persistent_calls(comm);
  }
  MPI_Free_mem(memory);
  window(comm);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  everything(MPI_COMM_WORLD);
  MPI_Comm copy, part;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  MPI_Comm_split(copy, 0, -rank, &part);
  everything(part);
  MPI_Comm_free(&part);
  MPI_Comm_free(&copy);
  int all = 0;
  MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0) printf("profiled: %s\n", all == 0 ? "ok" : "wrong");
  MPI_Finalize();
  return all != 0;
}
