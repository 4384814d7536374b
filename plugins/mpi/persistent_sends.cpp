#include "persistent_sends.hpp"

#include <limits>
#include <string>

#include "datatypes.hpp"
#include "pmpi.hpp"

namespace penstock::mpi {

bool persistent_sends_begin_early() {
  static const bool early = [] {
    const std::string& version = library().version;
    return abi() == Abi::open_mpi && version.starts_with("Open MPI v") && version[10] <= '4' &&
           version[11] == '.';
  }();
  return early;
}

TrueBeginnings::TrueBeginnings(CollectiveCall call, std::span<Word> words) {
  const bool one_type = call == CollectiveCall::alltoall || call == CollectiveCall::alltoallv;
  if (!one_type && call != CollectiveCall::alltoallw) return;
  if (!persistent_sends_begin_early() || reinterpret_cast<void*>(words[0]) == constants().in_place)
    return;
  if (one_type) {
    Word& type = words[call == CollectiveCall::alltoall ? 2 : 3];
    words[0] += static_cast<Word>(move(type));
  } else {
    move_each(words);
  }
}

TrueBeginnings::~TrueBeginnings() {
  for (Handle& type : made_) pmpi().Type_free(&type);
}

std::int64_t TrueBeginnings::move(Handle& type) {
  const auto layout = layout_of(type);
  if (!layout || (*layout)->extents.size() != 1) return 0;
  const auto [at, bytes] = (*layout)->extents.front();
  if (at == 0 || bytes > std::numeric_limits<int>::max()) return 0;
  const int success = constants().success;
  Handle piece = 0, made = 0;
  if (pmpi().Type_contiguous(static_cast<int>(bytes), constants().byte, &piece) != success)
    return 0;
  const int resized = pmpi().Type_create_resized(piece, 0, (*layout)->extent, &made);
  pmpi().Type_free(&piece);
  if (resized != success) return 0;
  made_.push_back(made);
  if (pmpi().Type_commit(&made_.back()) != success) return 0;
  type = made;
  return at;
}

/// MPI_Alltoallw has types and displacements, in bytes, of each rank.
void TrueBeginnings::move_each(std::span<Word> words) {
  const Handle comm = words[8];
  int inter = 0, ranks = 0;
  const int success = constants().success;
  if (pmpi().Comm_test_inter(comm, &inter) != success) return;
  if ((inter != 0 ? pmpi().Comm_remote_size : pmpi().Comm_size)(comm, &ranks) != success) return;
  const auto* const displacements = reinterpret_cast<const int*>(words[2]);
  const auto* const types = reinterpret_cast<const Handle*>(words[3]);
  displacements_.assign(displacements, displacements + ranks);
  types_.assign(types, types + ranks);
  for (std::size_t n = 0; n < types_.size(); ++n) {
    Handle type = types_[n];
    const std::int64_t moved = displacements_[n] + move(type);
    if (moved < std::numeric_limits<int>::min() || moved > std::numeric_limits<int>::max())
      continue;
    types_[n] = type;
    displacements_[n] = static_cast<int>(moved);
  }
  words[2] = reinterpret_cast<Word>(displacements_.data());
  words[3] = reinterpret_cast<Word>(types_.data());
}

}  // namespace penstock::mpi
