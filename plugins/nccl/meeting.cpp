#include "nccl/meeting.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "base/checksum.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "nccl/outcome.hpp"
#include "pool/host_identity.hpp"

namespace penstock::nccl {

namespace {

/// The first line of a rank's place; what it brings follows.
struct Arrival {
  std::uint64_t key = 0;  ///< not 0: it has come
  std::uint64_t token = 0;
  std::uint64_t has_read = 0;
  std::uint64_t unused[5] = {};
};
constexpr std::uint64_t line = sizeof(Arrival), stride = line + Meeting::max_bytes;
static_assert(line == 64);

constexpr std::chrono::minutes longest_wait{10};
constexpr std::chrono::milliseconds between_checks{50};

std::mutex mutex;
std::map<std::string, std::weak_ptr<Attached>> attachments;
std::vector<std::string> temporary_pools;  // of this process
pid_t maker_of_pools = 0;                  // and of no child of it

std::uint64_t random_key() {
  std::random_device random;
  return (std::uint64_t{random()} << 32 | random()) | 1;
}

/// As far as launchers tell.
std::uint32_t likely_ranks() {
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    const char* const text = std::getenv(name);
    const long ranks = text != nullptr ? std::strtol(text, nullptr, 10) : 0;
    if (ranks > 0 && ranks < 4096) return static_cast<std::uint32_t>(ranks);
  }
  return 8;
}

void remove_temporary_pools() {
  const std::lock_guard<std::mutex> guard(mutex);
  if (getpid() != maker_of_pools) return;
  for (const std::string& spec : temporary_pools) penstock_pool_remove(spec.c_str(), 1);
  temporary_pools.clear();
}

/// One for all unique ids of the process: each pool takes a good part of the host's memory.
Result make_temporary_pool(Invitation& invitation) {
  const std::lock_guard<std::mutex> guard(mutex);
  if (std::exchange(maker_of_pools, getpid()) != getpid()) temporary_pools.clear();
  if (!temporary_pools.empty()) {
    const std::string& there = temporary_pools.front();
    std::copy(there.begin(), there.end(), invitation.spec);
    return success;
  }
  const auto made =
      penstock_pool_create_temporary(likely_ranks(), invitation.spec, sizeof invitation.spec);
  if (made != PENSTOCK_OK) return outcome(made, "ncclGetUniqueId");
  static const bool registered = std::atexit(remove_temporary_pools) == 0;
  (void)registered;
  temporary_pools.emplace_back(invitation.spec);
  return success;
}

}  // namespace

std::uint64_t this_host() {
  const auto host = pool::this_host();
  return host ? base::xxh64(&host->boot_id, sizeof host->boot_id, 0) : 0;
}

std::uint64_t derived_key(std::uint64_t key, std::uint64_t salt) {
  const std::uint64_t both[] = {key, salt};
  return base::xxh64(both, sizeof both, 0) | 1;
}

Result invite(UniqueId& id) {
  Invitation invitation{.magic = Invitation::our_magic, .key = random_key(), .host = this_host()};
  const std::string named = penstock_default_spec();
  if (named.empty()) {
    if (const Result made = make_temporary_pool(invitation); made != success) return made;
  } else if (named.size() < sizeof invitation.spec) {
    std::copy(named.begin(), named.end(), invitation.spec);
  }
  id = {};
  std::memcpy(&id, &invitation, sizeof invitation);
  return success;
}

Result read_invitation(const UniqueId& id, Invitation& invitation) {
  std::memcpy(static_cast<void*>(&invitation), &id, sizeof invitation);
  invitation.spec[sizeof invitation.spec - 1] = 0;
  if (invitation.magic == Invitation::our_magic) return success;
  return failed(invalid_argument,
                "the unique id was made by another NCCL library: every process of the job, and the "
                "one that calls ncclGetUniqueId, loads Penstock's (penstock run --nccl, or "
                "LD_PRELOAD), or none");
}

Result Attached::get(const Invitation& invitation, int rank, std::shared_ptr<Attached>& attached) {
  const std::string named = penstock_default_spec();
  const std::string spec = named.empty() ? invitation.spec : named;
  if (spec.empty())
    return failed(invalid_usage, "no pool is named: set PENSTOCK_POOL on all hosts");
  if (named.empty() && invitation.host != this_host())
    return failed(invalid_usage,
                  fmt::format("rank {} runs on another host than the process that called "
                              "ncclGetUniqueId: set PENSTOCK_POOL on all hosts to a pool that all "
                              "of them share",
                              rank));
  const std::lock_guard<std::mutex> guard(mutex);
  if ((attached = attachments[spec].lock()) != nullptr) return success;
  const std::string job = fmt::format("nccl-{:016x}", invitation.key);
  penstock_attach_options_t options{};
  options.struct_bytes = sizeof options;
  options.rank = rank;
  options.job = job.c_str();
  penstock_pool_t* pool = nullptr;
  if (const auto status = penstock_pool_attach(spec.c_str(), &options, &pool);
      status != PENSTOCK_OK)
    return outcome(status, "ncclCommInitRank");
  attached.reset(new Attached(pool, spec));
  attachments[spec] = attached;
  return success;
}

Result Meeting::exchange(const void* mine, void* all, std::uint64_t bytes) {
  const std::string name = fmt::format("penstock.nccl.{:016x}", key_);
  penstock_object_options_t options{};
  options.struct_bytes = sizeof options;
  options.lifetime = PENSTOCK_LIFETIME_PROCESS;
  options.open_existing = 1;
  penstock_object_t* object = nullptr;
  const auto made = penstock_arena_create(
      pool_, name.c_str(), static_cast<std::uint64_t>(ranks_) * stride, &options, &object);
  if (made != PENSTOCK_OK) return outcome(made, "ncclCommInitRank");
  auto* const memory = static_cast<std::byte*>(penstock_object_data(object));
  std::byte* const place = memory + static_cast<std::uint64_t>(rank_) * stride;
  penstock_pool_info_t info{};
  (void)penstock_pool_info(pool_, &info);
  Arrival arrival{.key = key_, .token = info.token};
  (void)penstock_write(pool_, place + line, mine, bytes);
  (void)penstock_write(pool_, place, &arrival, sizeof arrival);
  Result result = await_all(memory, all, bytes);
  arrival.has_read = 1;
  (void)penstock_write(pool_, place, &arrival, sizeof arrival);
  // Rank 0 gives the memory back, when nobody needs it any more.
  if (rank_ != 0) {
    penstock_arena_close(object);
    return result;
  }
  if (result == success) result = await_all_gone(memory);
  (void)penstock_arena_destroy(object);
  return result;
}

Result Meeting::await_all(const std::byte* memory, void* all, std::uint64_t bytes) {
  const auto until = std::chrono::steady_clock::now() + longest_wait;
  auto check = std::chrono::steady_clock::now() + between_checks;
  std::vector<std::uint64_t> tokens(static_cast<std::size_t>(ranks_));
  int come = 0;
  for (std::uint32_t looks = 0; come < ranks_; ++looks) {
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      const std::byte* const place = memory + index * stride;
      if (tokens[index] != 0) continue;
      Arrival arrival;
      (void)penstock_read(pool_, &arrival, place, sizeof arrival);
      if (arrival.key != key_) continue;
      (void)penstock_read(pool_, static_cast<std::byte*>(all) + index * bytes, place + line, bytes);
      tokens[index] = arrival.token;
      ++come;
    }
    const auto now = std::chrono::steady_clock::now();
    if (come == ranks_ || now < check) {
      if (looks > 100) std::this_thread::sleep_for(std::chrono::microseconds(100));
      continue;
    }
    check = now + between_checks;
    const auto missing = std::find(tokens.begin(), tokens.end(), 0u) - tokens.begin();
    if (goes_on_)
      if (const Result ended = goes_on_(); ended != success) return ended;
    char who[256] = "";
    for (const std::uint64_t token : tokens)
      if (token != 0 && penstock_pool_alive(pool_, token, who, sizeof who) == 0)
        return failed(remote_error, fmt::format("ncclCommInitRank: {} died before all of {} ranks "
                                                "had come",
                                                who, ranks_));
    if (now > until)
      return failed(
          remote_error,
          fmt::format("ncclCommInitRank: {} of {} ranks have come within {} minutes; rank "
                      "{} is the first that is missing: see what it does, and whether it "
                      "loads the same library and names the same pool",
                      come, ranks_, longest_wait.count(), missing));
  }
  return success;
}

/// A rank that dies meanwhile needs nothing any more.
Result Meeting::await_all_gone(const std::byte* memory) {
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::byte* const place = memory + static_cast<std::size_t>(rank) * stride;
    for (;;) {
      Arrival arrival;
      (void)penstock_read(pool_, &arrival, place, sizeof arrival);
      if (arrival.has_read != 0 || penstock_pool_alive(pool_, arrival.token, nullptr, 0) == 0)
        break;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  return success;
}

}  // namespace penstock::nccl
