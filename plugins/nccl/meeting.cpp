#include "nccl/meeting.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/checksum.hpp"
#include "base/format.hpp"
#include "nccl/attached.hpp"
#include "nccl/outcome.hpp"
#include "pool/host_identity.hpp"

namespace penstock::nccl {

namespace {

/// The first line of a rank's entry; the rank's data follow it.
struct Arrival {
  std::uint64_t key = 0;  ///< the meeting's key once the rank has arrived; else 0
  std::uint64_t token = 0;
  std::uint64_t has_read = 0;
  std::uint64_t unused[5] = {};
};
constexpr std::uint64_t line = sizeof(Arrival), stride = line + Meeting::max_bytes;
static_assert(line == 64);

constexpr const char* over = ".over";  // suffix of the object that says the meeting was given up
constexpr std::chrono::minutes longest_wait{10};
constexpr std::chrono::milliseconds between_checks{50};

}  // namespace

std::uint64_t this_host() {
  const auto host = pool::this_host();
  return host ? base::xxh64(&host->boot_id, sizeof host->boot_id, 0) : 0;
}

std::uint64_t derived_key(std::uint64_t key, std::uint64_t salt) {
  const std::uint64_t both[] = {key, salt};
  return base::xxh64(both, sizeof both, 0) | 1;
}

std::string Meeting::name() const {
  return fmt::format("penstock.nccl.{:016x}", key_);
}

std::uint64_t Meeting::own_token() const {
  penstock_pool_info_t info{};
  (void)penstock_pool_info(pool_, &info);
  return info.token;
}

Result Meeting::exchange(const void* mine, void* all, std::uint64_t bytes) {
  const Result result = meet(mine, all, bytes);
  if (result != success) give_up(last_error());
  return result;
}

/// The first rank that gives up writes its reason into an object of one entry.
void Meeting::give_up(const std::string& why) {
  penstock_object_options_t options{};
  options.struct_bytes = sizeof options;
  options.lifetime = PENSTOCK_LIFETIME_PROCESS;
  penstock_object_t* object = nullptr;
  if (penstock_arena_create(pool_, (name() + over).c_str(), stride, &options, &object) !=
      PENSTOCK_OK)
    return;  // another rank has given up before
  auto* const place = static_cast<std::byte*>(penstock_object_data(object));
  char words[max_bytes] = "";
  why.copy(words, sizeof words - 1);
  const Arrival arrival{.key = key_, .token = own_token()};
  (void)penstock_write(pool_, place + line, words, sizeof words);
  (void)penstock_write(pool_, place, &arrival, sizeof arrival);
  penstock_arena_close(object);
  Attached::keep(pool_);
}

Result Meeting::check_given_up() {
  penstock_object_t* object = nullptr;
  if (penstock_arena_open(pool_, (name() + over).c_str(), &object) != PENSTOCK_OK) return success;
  Arrival arrival;
  char words[max_bytes] = "", who[256] = "";
  if (penstock_object_bytes(object) >= stride) {
    const auto* const place = static_cast<const std::byte*>(penstock_object_data(object));
    (void)penstock_read(pool_, &arrival, place, sizeof arrival);
    (void)penstock_read(pool_, words, place + line, sizeof words);
    words[sizeof words - 1] = 0;
  }
  penstock_arena_close(object);
  if (arrival.key != key_) return success;  // the entry is not complete yet
  (void)penstock_pool_alive(pool_, arrival.token, who, sizeof who);
  return failed(remote_error, fmt::format("ncclCommInitRank: {} has given up: {}", who, words));
}

Result Meeting::meet(const void* mine, void* all, std::uint64_t bytes) {
  if (const Result told = check_given_up(); told != success) return told;
  penstock_object_options_t options{};
  options.struct_bytes = sizeof options;
  options.lifetime = PENSTOCK_LIFETIME_PROCESS;
  options.open_existing = 1;
  penstock_object_t* object = nullptr;
  const auto made = penstock_arena_create(
      pool_, name().c_str(), static_cast<std::uint64_t>(ranks_) * stride, &options, &object);
  if (made != PENSTOCK_OK) return outcome(made, "ncclCommInitRank");
  auto* const memory = static_cast<std::byte*>(penstock_object_data(object));
  std::byte* const place = memory + static_cast<std::uint64_t>(rank_) * stride;
  Arrival arrival{.key = key_, .token = own_token()};
  (void)penstock_write(pool_, place + line, mine, bytes);
  (void)penstock_write(pool_, place, &arrival, sizeof arrival);
  const Result result = await_all(memory, all, bytes);
  if (result != success) {
    penstock_arena_close(object);  // other ranks may still read; freed when its creator exits
    return result;
  }
  arrival.has_read = 1;
  (void)penstock_write(pool_, place, &arrival, sizeof arrival);
  // Rank 0 frees the object once all ranks have read it.
  if (rank_ != 0) {
    penstock_arena_close(object);
    return success;
  }
  if (await_all_gone(memory))
    (void)penstock_arena_destroy(object);
  else
    penstock_arena_close(object);
  return success;
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
    if (const Result others = check_others(tokens); others != success) return others;
    if (now > until)
      return failed(
          remote_error,
          fmt::format("ncclCommInitRank: {} of {} ranks have come within {} minutes; rank "
                      "{} is the first that is missing: see what it does, and whether it "
                      "loads the same library and names the same pool",
                      come, ranks_, longest_wait.count(),
                      std::find(tokens.begin(), tokens.end(), 0u) - tokens.begin()));
  }
  return success;
}

/// Errors: the wait must end, because a rank has died or given up or `goes_on` says so.
Result Meeting::check_others(const std::vector<std::uint64_t>& tokens) {
  if (goes_on_)
    if (const Result ended = goes_on_(); ended != success) return ended;
  char who[256] = "";
  for (const std::uint64_t token : tokens)
    if (token != 0 && penstock_pool_alive(pool_, token, who, sizeof who) == 0)
      return failed(remote_error, fmt::format("ncclCommInitRank: {} died before all of {} ranks "
                                              "had come",
                                              who, ranks_));
  return check_given_up();
}

/// Waits until every rank has read all entries or has died. False on a timeout or an abort: a
/// stopped rank may still access the object.
bool Meeting::await_all_gone(const std::byte* memory) {
  const auto until = std::chrono::steady_clock::now() + longest_wait;
  for (int rank = 0; rank < ranks_; ++rank) {
    const std::byte* const place = memory + static_cast<std::size_t>(rank) * stride;
    for (;;) {
      Arrival arrival;
      (void)penstock_read(pool_, &arrival, place, sizeof arrival);
      if (arrival.has_read != 0 || penstock_pool_alive(pool_, arrival.token, nullptr, 0) == 0)
        break;
      if (std::chrono::steady_clock::now() > until) return false;
      if (goes_on_ && goes_on_() != success) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  return true;
}

}  // namespace penstock::nccl
