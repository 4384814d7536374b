#include "taking_part.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "attachment.hpp"
#include "base/log.hpp"
#include "collective_choice.hpp"
#include "pmpi.hpp"
#include "session/apart.hpp"

namespace penstock::mpi {

namespace {

using plugin::Apart;

std::atomic<bool> calls_come{false};

/// Whether it is so does not change after MPI_Init: each rank is looked for once.
class Told {
 public:
  std::optional<Apart> of(const plugin::Session& session, int rank) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto known = ranks_.find(rank);
    if (known != ranks_.end()) return known->second;
    return ranks_[rank] = plugin::told_apart(session, rank);
  }
  bool is_new(int rank, Shared in) {
    const std::lock_guard<std::mutex> guard(mutex_);
    return said_.emplace(rank, in).second;
  }

 private:
  std::mutex mutex_;
  std::map<int, std::optional<Apart>> ranks_;  ///< by rank of MPI_COMM_WORLD
  std::set<std::pair<int, Shared>> said_;
};

Told& told() {
  static auto* all = new Told;  // never destroyed: calls may come from exit handlers
  return *all;
}

/// The ranks of a communicator in MPI_COMM_WORLD; MPI_UNDEFINED of those that are not there.
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

/// What keeps a rank from it.
std::optional<Apart> obstacle(const plugin::Session& session, int rank, Shared in) {
  if (rank == constants().undefined) return std::nullopt;
  const auto why = told().of(session, rank);
  if (why == Apart::no_collectives && in == Shared::windows) return std::nullopt;
  return why;
}

}  // namespace

bool all_take_part(Handle comm, Shared in) {
  Attachment* const at = attachment();
  if (at == nullptr || !has_world()) return true;
  int self = 0;
  pmpi().Comm_rank(comm, &self);
  const std::vector<int> ranks = ranks_in_world(comm);
  std::vector<std::pair<int, Apart>> apart;
  int first = ranks[static_cast<std::size_t>(self)];
  for (const int rank : ranks) {
    if (const auto why = obstacle(*at->session, rank, in))
      apart.emplace_back(rank, *why);
    else if (rank != constants().undefined)
      first = std::min(first, rank);
  }
  // One speaks for all: of the same ranks always the same one.
  for (const auto& [rank, why] : apart) {
    if (first == ranks[static_cast<std::size_t>(self)] && told().is_new(rank, in))
      base::log(base::Level::warn, "{} of communicators with rank {} stay with the MPI: {}",
                in == Shared::windows ? "windows" : "collectives", rank, plugin::apart_text(why));
  }
  return apart.empty();
}

void note_calls_come() {
  calls_come.store(true);
}

int apart_here() {
  if (!calls_come.load()) return static_cast<int>(Apart::unseen);
  return calls_in_pool() == 0 ? static_cast<int>(Apart::no_collectives) : 0;
}

}  // namespace penstock::mpi
