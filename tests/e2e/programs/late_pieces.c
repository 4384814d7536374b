/* Data that begin behind their buffer: by persistent sends, MPI_Alltoall, MPI_Alltoallv and
 * MPI_Alltoallw, 3 times each. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { kinds = 4, room = 64, most = 8 };
static int rank, ranks, wrong;

/* What a rank sends of each kind, as places in its buffer. */
static const int places[kinds][2] = {{5, 6}, {6, 5}, {3, 4}, {0, 1}};

static MPI_Datatype kind_of(int kind) {
  MPI_Datatype made, resized;
  const int lengths[2] = {1, 1};
  MPI_Type_indexed(2, lengths, places[kind], MPI_INT, &made);
  MPI_Type_create_resized(made, 0, (kind == 2 ? 2 : 8) * (MPI_Aint)sizeof(int), &resized);
  MPI_Type_commit(&resized);
  MPI_Type_free(&made);
  return resized;
}

static int stride_of(int kind) {
  return kind == 2 ? 2 : 8;
}

static int value(int sender, int place) {
  return 1000 * sender + place;
}

static void check(const char* call, int kind, int sender, int first, const int* got) {
  for (int n = 0; n < 2; ++n) {
    const int wanted = value(sender, first + places[kind][n]);
    if (got[n] != wanted && wrong++ < 10)
      printf("late pieces: %s, kind %d: rank %d got %d of rank %d, wanted %d\n", call, kind, rank,
             got[n], sender, wanted);
  }
}

static void persistent(int kind, MPI_Datatype type, const int* buffer) {
  int (*const inits[])(const void*, int, MPI_Datatype, int, int, MPI_Comm, MPI_Request*) = {
      MPI_Send_init, MPI_Ssend_init};
  for (int which = 0; which < 2; ++which) {
    int got[4];
    MPI_Request send;
    inits[which](buffer, 2, type, (rank + 1) % ranks, kind, MPI_COMM_WORLD, &send);
    for (int round = 0; round < 3; ++round) {
      MPI_Request receive;
      const int sender = (rank + ranks - 1) % ranks;
      MPI_Irecv(got, 4, MPI_INT, sender, kind, MPI_COMM_WORLD, &receive);
      MPI_Start(&send);
      MPI_Wait(&receive, MPI_STATUS_IGNORE);
      MPI_Wait(&send, MPI_STATUS_IGNORE);
      check("persistent", kind, sender, 0, got);
      check("persistent", kind, sender, stride_of(kind), got + 2);
    }
    MPI_Request_free(&send);
  }
}

static void all_to_all(int kind, MPI_Datatype type, const int* buffer) {
  int got[2 * most], ones[most], twos[most], sends[most], receives[most], in_bytes[most],
      into[most];
  MPI_Datatype types[most], pairs[most];
  for (int n = 0; n < ranks; ++n) {
    ones[n] = 1, twos[n] = 2, sends[n] = n, receives[n] = 2 * n;
    in_bytes[n] = n * stride_of(kind) * (int)sizeof(int), into[n] = 2 * n * (int)sizeof(int);
    types[n] = type, pairs[n] = MPI_INT;
  }
  for (int call = 0; call < 3; ++call) {
    static const char* const names[] = {"MPI_Alltoall", "MPI_Alltoallv", "MPI_Alltoallw"};
    MPI_Comm comm; /* a new one: Penstock leaves its first calls to the MPI */
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    memset(got, -1, sizeof got);
    if (call == 0) MPI_Alltoall(buffer, 1, type, got, 2, MPI_INT, comm);
    if (call == 1) MPI_Alltoallv(buffer, ones, sends, type, got, twos, receives, MPI_INT, comm);
    if (call == 2) MPI_Alltoallw(buffer, ones, in_bytes, types, got, twos, into, pairs, comm);
    for (int n = 0; n < ranks; ++n)
      check(names[call], kind, n, rank * stride_of(kind), got + 2 * n);
    MPI_Comm_free(&comm);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks > most) MPI_Abort(MPI_COMM_WORLD, 2);
  int buffer[room + 8];
  for (int n = 0; n < room + 8; ++n) buffer[n] = value(rank, n);
  for (int kind = 0; kind < kinds; ++kind) {
    MPI_Datatype type = kind_of(kind);
    persistent(kind, type, buffer);
    all_to_all(kind, type, buffer);
    MPI_Type_free(&type);
  }
  int all = 0;
  MPI_Reduce(&wrong, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0 && all == 0) printf("late pieces: ok: %d ranks\n", ranks);
  MPI_Finalize();
  return 0;
}
