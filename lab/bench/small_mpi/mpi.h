// The part of MPI that NVIDIA's nccl-tests call, for processes of one host: so that they can be
// built with MPI=1 (several processes on one GPU) and run without an MPI. SMALL_MPI="RANK RANKS
// FILE": FILE is memory that all of them map. A rank that waits for two minutes ends its process.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

using MPI_Comm = int;
enum MPI_Datatype {
  MPI_DATATYPE_NULL,
  MPI_BYTE,
  MPI_INT,
  MPI_LONG,
  MPI_LONG_LONG,
  MPI_INT64_T,
  MPI_DOUBLE
};
enum MPI_Op { MPI_SUM, MPI_MIN, MPI_MAX };
enum { MPI_SUCCESS = 0, MPI_COMM_WORLD = 0 };
inline void* const MPI_IN_PLACE = reinterpret_cast<void*>(-1);

namespace small_mpi {

constexpr std::size_t slot_bytes = 1 << 20;

struct Shared {
  std::atomic<std::uint64_t> arrived, turn;  // of the barrier
  char pad[48];
};

inline int rank = 0, ranks = 1;
inline Shared* shared = nullptr;

[[noreturn]] inline void end(const char* why) {
  std::fprintf(stderr, "small_mpi: rank %d: %s\n", rank, why);
  std::exit(3);
}

inline char* slot(int of) {
  return reinterpret_cast<char*>(shared + 1) + static_cast<std::size_t>(of) * slot_bytes;
}

inline void barrier() {
  const auto until = std::chrono::steady_clock::now() + std::chrono::minutes(2);
  const std::uint64_t turn = shared->turn;
  if (shared->arrived.fetch_add(1) + 1 == static_cast<std::uint64_t>(ranks)) {
    shared->arrived = 0;
    ++shared->turn;
  }
  while (shared->turn == turn) {
    if (std::chrono::steady_clock::now() > until) end("the other ranks do not come");
    std::this_thread::yield();
  }
}

inline std::size_t bytes_of(MPI_Datatype type, int count) {
  const std::size_t size = type == MPI_BYTE ? 1 : type == MPI_INT ? 4 : 8;
  if (size * static_cast<std::size_t>(count) > slot_bytes) end("too long");
  return size * static_cast<std::size_t>(count);
}

/// The contributions of all ranks stay in their slots until the next call of done().
inline void bring(const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(slot(rank), from, bytes);
  barrier();
}
inline void done() {
  barrier();
}

template <class T>
void reduce(void* to, int count, MPI_Op op) {
  for (int i = 0; i < count; ++i) {
    T result{};
    for (int r = 0; r < ranks; ++r) {
      T one;
      std::memcpy(&one, slot(r) + static_cast<std::size_t>(i) * sizeof one, sizeof one);
      if (r == 0)
        result = one;
      else if (op == MPI_SUM)
        result += one;
      else if (op == MPI_MIN ? one < result : result < one)
        result = one;
    }
    std::memcpy(static_cast<char*>(to) + static_cast<std::size_t>(i) * sizeof result, &result,
                sizeof result);
  }
}

}  // namespace small_mpi

inline int MPI_Init(int*, char***) {
  using namespace small_mpi;
  char file[512] = "";
  const char* const text = std::getenv("SMALL_MPI");
  if (text == nullptr || std::sscanf(text, "%d %d %511s", &rank, &ranks, file) != 3)
    end("SMALL_MPI=\"RANK RANKS FILE\" is not set");
  const std::size_t bytes = sizeof(Shared) + static_cast<std::size_t>(ranks) * slot_bytes;
  const int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(bytes)) != 0) end("the file cannot be made");
  void* const mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) end("the file cannot be mapped");
  close(fd);
  shared = static_cast<Shared*>(mapped);
  barrier();
  return MPI_SUCCESS;
}
inline int MPI_Finalize() {
  small_mpi::barrier();
  return MPI_SUCCESS;
}
inline int MPI_Comm_size(MPI_Comm, int* size) {
  *size = small_mpi::ranks;
  return MPI_SUCCESS;
}
inline int MPI_Comm_rank(MPI_Comm, int* rank) {
  *rank = small_mpi::rank;
  return MPI_SUCCESS;
}
/// Only one communicator: parts of the job are not supported.
inline int MPI_Comm_split(MPI_Comm, int color, int, MPI_Comm* made) {
  if (color != 0) small_mpi::end("NCCL_TESTS_SPLIT is not supported");
  *made = MPI_COMM_WORLD;
  return MPI_SUCCESS;
}
inline int MPI_Comm_free(MPI_Comm*) {
  return MPI_SUCCESS;
}
inline int MPI_Barrier(MPI_Comm) {
  small_mpi::barrier();
  return MPI_SUCCESS;
}
inline int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm) {
  const std::size_t bytes = small_mpi::bytes_of(type, count);
  small_mpi::bring(data, small_mpi::rank == root ? bytes : 0);
  std::memcpy(data, small_mpi::slot(root), bytes);
  small_mpi::done();
  return MPI_SUCCESS;
}
/// Only in place.
inline int MPI_Allgather(const void* from, int, MPI_Datatype, void* to, int count,
                         MPI_Datatype type, MPI_Comm) {
  const std::size_t bytes = small_mpi::bytes_of(type, count);
  auto* const all = static_cast<char*>(to);
  if (from != MPI_IN_PLACE) small_mpi::end("MPI_Allgather is in place only");
  small_mpi::bring(all + static_cast<std::size_t>(small_mpi::rank) * bytes, bytes);
  for (int r = 0; r < small_mpi::ranks; ++r)
    std::memcpy(all + static_cast<std::size_t>(r) * bytes, small_mpi::slot(r), bytes);
  small_mpi::done();
  return MPI_SUCCESS;
}
inline int MPI_Gather(const void* from, int count, MPI_Datatype type, void* to, int, MPI_Datatype,
                      int root, MPI_Comm) {
  const std::size_t bytes = small_mpi::bytes_of(type, count);
  small_mpi::bring(from, bytes);
  for (int r = 0; r < small_mpi::ranks && small_mpi::rank == root; ++r)
    std::memcpy(static_cast<char*>(to) + static_cast<std::size_t>(r) * bytes, small_mpi::slot(r),
                bytes);
  small_mpi::done();
  return MPI_SUCCESS;
}
/// Only in place.
inline int MPI_Allreduce(const void* from, void* to, int count, MPI_Datatype type, MPI_Op op,
                         MPI_Comm) {
  if (from != MPI_IN_PLACE) small_mpi::end("MPI_Allreduce is in place only");
  small_mpi::bring(to, small_mpi::bytes_of(type, count));
  if (type == MPI_INT)
    small_mpi::reduce<std::int32_t>(to, count, op);
  else if (type == MPI_DOUBLE)
    small_mpi::reduce<double>(to, count, op);
  else
    small_mpi::reduce<std::int64_t>(to, count, op);
  small_mpi::done();
  return MPI_SUCCESS;
}
