// How the ranks of a communicator find each other in the pool. They share an object, named by a key
// that all of them know: each rank writes its own entry and reads the entries of the others.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nccl/abi.hpp"
#include "nccl/meeting_entries.hpp"
#include "penstock/penstock.h"

namespace penstock::nccl {

/// One exchange between `ranks` ranks that know the same `key`; each key is used once. The first
/// rank that gives up records that in an object that lives as long as its process, so that ranks
/// that arrive later fail at once.
class Meeting {
 public:
  static constexpr std::uint64_t max_bytes = MeetingEntries::max_bytes;
  /// `goes_on` is polled while waiting; an error from it ends the exchange. internal_error: this
  /// rank was aborted; any other: a rank that is needed has died or given up.
  Meeting(penstock_pool_t* pool, std::uint64_t key, int rank, int ranks,
          std::function<Result()> goes_on = nullptr)
      : pool_(pool), key_(key), rank_(rank), ranks_(ranks), goes_on_(std::move(goes_on)) {}

  /// Gathers `mine` of every rank into `all`, in rank order. `bytes`: size of each, at most
  /// max_bytes. Errors: remote_error, which names ranks that did not arrive in time, died or gave
  /// up; those of the pool. On an error this rank gives up.
  Result exchange(const void* mine, void* all, std::uint64_t bytes);
  /// Tells the other ranks, also those that arrive later, not to wait, and `why`.
  void give_up(const std::string& why);

 private:
  Result meet(const void* mine, void* all, std::uint64_t bytes);
  Result open(penstock_object_t*& object, bool& made_it);
  int read_new(const MeetingEntries& entries, void* all, std::uint64_t bytes,
               std::vector<std::uint64_t>& tokens) const;
  Result await_all(const MeetingEntries& entries, void* all, std::uint64_t bytes,
                   std::vector<std::uint64_t>& tokens);
  Result check_others(const std::vector<std::uint64_t>& tokens);
  Result check_given_up();
  bool await_all_gone(const MeetingEntries& entries, const std::vector<std::uint64_t>& tokens);
  std::uint64_t own_token() const;
  std::string name() const;

  penstock_pool_t* pool_;
  std::uint64_t key_;
  int rank_, ranks_;
  std::function<Result()> goes_on_;
};

/// Identifies this boot of this host: the same in all its processes.
std::uint64_t this_host();

/// Derives another key: the same on all ranks that pass the same key and salt.
std::uint64_t derived_key(std::uint64_t key, std::uint64_t salt);

}  // namespace penstock::nccl
