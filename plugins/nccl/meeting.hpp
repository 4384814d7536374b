// How the ranks of a communicator find each other in the pool: in an object, whose name is made of
// a key that all of them know, each leaves a few lines and reads those of the others.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "nccl/abi.hpp"
#include "penstock/penstock.h"

namespace penstock::nccl {

/// One exchange between `ranks` ranks that know the same `key`; each key is used once. A rank that
/// gives it up first says so in an object of its own, which lives as long as its process: who comes
/// later is told at once.
class Meeting {
 public:
  static constexpr std::uint64_t max_bytes = 192;
  /// `goes_on`: asked now and then; an error ends the exchange.
  Meeting(penstock_pool_t* pool, std::uint64_t key, int rank, int ranks,
          std::function<Result()> goes_on = nullptr)
      : pool_(pool), key_(key), rank_(rank), ranks_(ranks), goes_on_(std::move(goes_on)) {}

  /// `mine` of each rank, in rank order, into `all`; `bytes` each, max_bytes at most. Errors:
  /// remote_error, which names ranks that have not come in time, have died or have given up; those
  /// of the pool. On an error the meeting is given up.
  Result exchange(const void* mine, void* all, std::uint64_t bytes);
  /// Tells the other ranks, also those that come later, not to wait: `why`.
  void give_up(const std::string& why);

 private:
  Result meet(const void* mine, void* all, std::uint64_t bytes);
  Result await_all(const std::byte* memory, void* all, std::uint64_t bytes);
  Result check_others(const std::vector<std::uint64_t>& tokens);
  Result check_given_up();
  bool await_all_gone(const std::byte* memory);
  std::uint64_t own_token() const;
  std::string name() const;

  penstock_pool_t* pool_;
  std::uint64_t key_;
  int rank_, ranks_;
  std::function<Result()> goes_on_;
};

/// The same for all processes of this host since it was started.
std::uint64_t this_host();

/// Another key, the same for all who know the first.
std::uint64_t derived_key(std::uint64_t key, std::uint64_t salt);

}  // namespace penstock::nccl
