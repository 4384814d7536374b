// How the ranks of a communicator find each other: in an object of the pool, whose name is made of
// the unique id, each leaves a few lines and reads those of the others. Nothing else connects them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "nccl/abi.hpp"
#include "penstock/penstock.h"

namespace penstock::nccl {

/// What ncclGetUniqueId() gives out.
struct Invitation {
  static constexpr std::uint64_t our_magic = 0x4b434f54534e4550;  // "PENSTOCK"
  std::uint64_t magic = 0, key = 0, host = 0;
  char spec[96] = "";  ///< of the pool; "": too long, so PENSTOCK_POOL names it everywhere
};
static_assert(sizeof(Invitation) <= sizeof(UniqueId));

/// Of the pool that PENSTOCK_POOL names, or of a temporary one, which this process makes and
/// removes at its end.
Result invite(UniqueId& id);
/// Errors: invalid_argument, an id that another library has made.
Result read_invitation(const UniqueId& id, Invitation& invitation);

/// This process's attachment to a pool, shared by its communicators.
class Attached {
 public:
  /// Errors: those of penstock_pool_attach; system_error, where the pool is another host's own.
  static Result get(const Invitation& invitation, int rank, std::shared_ptr<Attached>& attached);
  ~Attached() { penstock_pool_detach(pool_); }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

  penstock_pool_t* pool() const { return pool_; }
  const std::string& spec() const { return spec_; }

 private:
  Attached(penstock_pool_t* pool, std::string spec) : pool_(pool), spec_(std::move(spec)) {}
  penstock_pool_t* pool_;
  std::string spec_;
};

/// One exchange between `ranks` ranks that know the same `key`; each key is used once.
class Meeting {
 public:
  static constexpr std::uint64_t max_bytes = 192;
  /// `goes_on`: asked now and then; an error ends the exchange.
  Meeting(penstock_pool_t* pool, std::uint64_t key, int rank, int ranks,
          std::function<Result()> goes_on = nullptr)
      : pool_(pool), key_(key), rank_(rank), ranks_(ranks), goes_on_(std::move(goes_on)) {}

  /// `mine` of each rank, in rank order, into `all`; `bytes` each, max_bytes at most. Errors:
  /// remote_error, which names ranks that have not come in time or have died; those of the pool.
  Result exchange(const void* mine, void* all, std::uint64_t bytes);

 private:
  Result await_all(const std::byte* memory, void* all, std::uint64_t bytes);
  Result await_all_gone(const std::byte* memory);

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
