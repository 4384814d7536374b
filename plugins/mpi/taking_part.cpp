#include "taking_part.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "attachment.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "collective_choice.hpp"
#include "pmpi.hpp"

namespace penstock::mpi {

namespace {

using plugin::Apart;

std::atomic<bool> calls_seen{false};

/// Caches whether each rank takes part. This does not change after MPI_Init.
class ParticipationCache {
 public:
  Apart of(const plugin::Session& session, int rank) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto known = ranks_.find(rank);
    if (known != ranks_.end()) return known->second;
    return ranks_[rank] = plugin::announced_apart(session, rank);
  }
  bool is_new(int rank, Shared in) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return said_.emplace(rank, in).second;
  }

 private:
  std::mutex mutex_;
  std::map<int, Apart> ranks_;  ///< keyed by rank in MPI_COMM_WORLD
  std::set<std::pair<int, Shared>> said_;
};

ParticipationCache& participation() {
  static auto* all = new ParticipationCache;  // never destroyed: calls may come from exit handlers
  return *all;
}

/// The communicator's ranks as ranks of MPI_COMM_WORLD; MPI_UNDEFINED for processes outside it.
std::vector<int> ranks_in_world(Handle comm) {
  Slot group, world;
  int size = 0;
  pmpi().Comm_size(comm, &size);
  std::vector<int> own(static_cast<std::size_t>(size)), there(own.size());
  std::iota(own.begin(), own.end(), 0);
  pmpi().Comm_group(comm, group);
  pmpi().Comm_group(constants().comm_world, world);
  pmpi().Group_translate_ranks(group.get(), size, own.data(), world.get(), there.data());
  pmpi().Group_free(world);
  pmpi().Group_free(group);
  return there;
}

Apart apart_of(const plugin::Session& session, int rank) {
  return rank == constants().undefined ? Apart{} : participation().of(session, rank);
}

bool is_present(const Apart& apart) {
  return apart.why == Apart::Why::none || apart.why == Apart::Why::own_choice;
}

std::uint64_t calls_of(const Apart& apart) {
  return apart.why == Apart::Why::own_choice ? apart.calls : all_calls();
}

/// The reason why a rank cannot take part; "" if it can.
std::string obstacle(const Apart& apart, Shared in) {
  if (apart.why == Apart::Why::unloaded)
    return "libpenstock-mpi.so is not in its process: LD_PRELOAD must name it on all hosts";
  if (apart.why == Apart::Why::unseen)
    return "its program calls MPI past libpenstock-mpi.so: with an MPI that is linked statically, "
           "or from a library that was loaded with RTLD_DEEPBIND";
  if (in == Shared::windows || calls_of(apart) == calls_in_pool()) return "";
  return fmt::format(
      "those for the pool are {} there, and {} here: PENSTOCK_COLL must be the same "
      "on all ranks",
      calls_text(calls_of(apart)), calls_text(calls_in_pool()));
}

/// The rank of MPI_COMM_WORLD that reports for all. It depends on the set of ranks only.
int speaker_of(const plugin::Session& session, const std::vector<int>& ranks, Shared in) {
  int first = constants().undefined;
  for (const int rank : ranks) {
    const Apart apart = apart_of(session, rank);
    const bool asks = is_present(apart) && (in == Shared::windows || calls_of(apart) != 0);
    if (rank != constants().undefined && asks)
      first = first == constants().undefined ? rank : std::min(first, rank);
  }
  return first;
}

}  // namespace

bool all_take_part(Handle comm, Shared in) {
  Attachment* const at = attachment();
  if (at == nullptr || !has_world()) return true;
  int self = 0;
  pmpi().Comm_rank(comm, &self);
  const plugin::Session& session = *at->session;
  const std::vector<int> ranks = ranks_in_world(comm);
  const bool speaks = speaker_of(session, ranks, in) == ranks[static_cast<std::size_t>(self)];
  bool all = true;
  for (const int rank : ranks) {
    const std::string why = obstacle(apart_of(session, rank), in);
    if (why.empty()) continue;
    all = false;
    if (speaks && participation().is_new(rank, in))
      base::log(base::Level::warn, "{} of communicators with rank {} stay with the MPI: {}",
                in == Shared::windows ? "windows" : "collectives", rank, why);
  }
  return all;
}

void note_calls_seen() {
  calls_seen.store(true);
}

Apart apart_here() {
  if (!calls_seen.load()) return {.why = Apart::Why::unseen};
  if (calls_in_pool() == all_calls()) return {};
  return {.why = Apart::Why::own_choice, .calls = calls_in_pool()};
}

}  // namespace penstock::mpi
