/* The rounds of a plan of sends and receives (matching_plan.h), each a group:
 *
 *   nccl_matching RANK RANKS FOLDER WHAT     FOLDER passes the unique id
 *
 * PLAN: the file. GPU=1: buffers are memory of the GPU that libcuda.so.1 finds. */
#define _GNU_SOURCE
#include "matching_plan.h"
#include "nccl_gpu.h"
#include "nccl_meet.h"

static ncclComm_t comm;
static void* stream;
static struct buffer in, out;

static void play(const struct planned* calls, int count) {
  size_t sent = 0, received = 0;
  for (int i = 0; i < count; ++i)
    if (calls[i].is_send) fill(&calls[i], in.host + sent), sent += calls[i].bytes;
  put(&in, stream);
  sent = 0;
  CHECK(ncclGroupStart());
  for (int i = 0; i < count; ++i) {
    char* const from = (char*)in.device + sent;
    char* const to = (char*)out.device + received;
    const size_t bytes = calls[i].bytes;
    if (calls[i].is_send)
      CHECK(ncclSend(from, bytes, ncclInt8, calls[i].peer, comm, stream));
    else
      CHECK(ncclRecv(to, bytes, ncclInt8, calls[i].peer, comm, stream));
    *(calls[i].is_send ? &sent : &received) += bytes;
  }
  CHECK(ncclGroupEnd());
  get(&out, stream);
  received = 0;
  for (int i = 0; i < count; ++i)
    if (!calls[i].is_send) check(&calls[i], out.host + received), received += calls[i].bytes;
}

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  const int rank = atoi(argv[1]), ranks = atoi(argv[2]);
  open_gpu();
  stream = new_stream();
  CHECK(ncclCommInitRank(&comm, ranks, meet(rank, argv[3]), rank));
  in = new_buffer((size_t)8 << 20);
  out = new_buffer((size_t)8 << 20);
  play_plan(getenv("PLAN"), rank, play);
  free_buffer(&in);
  free_buffer(&out);
  CHECK(ncclCommDestroy(comm));
  printf("ok\n");
  return 0;
}
