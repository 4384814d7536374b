// Persistent sends of Open MPI 4. Over each of libfabric's providers they send what lies at the
// buffer's start when the datatype is one piece that begins later, such as whole rows of a
// subarray. findings/openmpi_4_persistent_sends_begin_early.sh shows it without us. MPI_Alltoallw
// makes such sends, MPI_Alltoallv with four ranks, and MPI_Alltoall may. The cure: a type with the
// same data that begins at its buffer, and a buffer that begins later.
#pragma once

#include <span>
#include <vector>

#include "collective_arguments.hpp"
#include "collective_words.hpp"

namespace penstock::mpi {

/// True if the MPI of this process may have the fault: Open MPI 4 and older.
bool persistent_sends_begin_early();

/// Keeps the types that it has made until the call is over.
class TrueBeginnings {
 public:
  TrueBeginnings() = default;
  /// Changes the arguments of a blocking collective call, `words`. Leaves other calls as they are.
  TrueBeginnings(CollectiveCall call, std::span<Word> words);
  ~TrueBeginnings();
  TrueBeginnings(const TrueBeginnings&) = delete;
  TrueBeginnings& operator=(const TrueBeginnings&) = delete;

  /// Returns how far behind its buffer the one piece of `type` begins, and replaces `type`. Returns
  /// 0 and changes nothing for other types.
  std::int64_t move(Handle& type);

 private:
  void move_each(std::span<Word> words);

  std::vector<Handle> made_;
  std::vector<int> displacements_;
  std::vector<Handle> types_;
};

}  // namespace penstock::mpi
