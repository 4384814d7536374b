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
  if (penstock_arena_create(pool_, (name() + over).c_str(), MeetingEntries::bytes_of_rank, &options,
                            &object) != PENSTOCK_OK)
    return;  // another rank has given up before
  char words[max_bytes] = "";
  why.copy(words, sizeof words - 1);
  MeetingEntries(pool_, penstock_object_data(object), key_)
      .write(0, own_token(), words, sizeof words);
  penstock_arena_close(object);
  Attached::keep(pool_);
}

Result Meeting::check_given_up() {
  penstock_object_t* object = nullptr;
  if (penstock_arena_open(pool_, (name() + over).c_str(), &object) != PENSTOCK_OK) return success;
  std::optional<std::uint64_t> token;
  char words[max_bytes] = "", who[256] = "";
  if (penstock_object_bytes(object) >= MeetingEntries::bytes_of_rank)
    token = MeetingEntries(pool_, penstock_object_data(object), key_).read(0, words, sizeof words);
  penstock_arena_close(object);
  if (!token) return success;  // the entry is not complete yet
  words[sizeof words - 1] = 0;
  (void)penstock_pool_alive(pool_, *token, who, sizeof who);
  return failed(remote_error, fmt::format("ncclCommInitRank: {} has given up: {}", who, words));
}

/// Opens the meeting's object. `made_it`: this rank is the first, and has made it.
Result Meeting::open(penstock_object_t*& object, bool& made_it) {
  penstock_object_options_t options{};
  options.struct_bytes = sizeof options;
  options.lifetime = PENSTOCK_LIFETIME_PROCESS;
  const auto bytes = static_cast<std::uint64_t>(ranks_) * MeetingEntries::bytes_of_rank;
  auto status = penstock_arena_create(pool_, name().c_str(), bytes, &options, &object);
  made_it = status == PENSTOCK_OK;
  if (status == PENSTOCK_ALREADY_EXISTS) {
    options.open_existing = 1;
    status = penstock_arena_create(pool_, name().c_str(), bytes, &options, &object);
  }
  return outcome(status, "ncclCommInitRank");
}

Result Meeting::meet(const void* mine, void* all, std::uint64_t bytes) {
  if (const Result checked = check_given_up(); checked != success) return checked;
  penstock_object_t* object = nullptr;
  bool made_it = false;
  if (const Result opened = open(object, made_it); opened != success) return opened;
  MeetingEntries entries(pool_, penstock_object_data(object), key_);
  entries.write(rank_, own_token(), mine, bytes);
  std::vector<std::uint64_t> tokens(static_cast<std::size_t>(ranks_));
  const Result result = await_all(entries, all, bytes, tokens);
  if (result != success) {
    penstock_arena_close(object);  // other ranks may still read; freed when its creator exits
    return result;
  }
  entries.leave(rank_);
  // The object is freed with its maker's process at the latest, so the maker must not go before
  // the others have read it.
  if (made_it && await_all_gone(entries, tokens))
    (void)penstock_arena_destroy(object);
  else
    penstock_arena_close(object);
  return success;
}

/// Reads the entries that were not there before: their tokens are 0. Returns how many it found.
int Meeting::read_new(const MeetingEntries& entries, void* all, std::uint64_t bytes,
                      std::vector<std::uint64_t>& tokens) const {
  int found = 0;
  for (int rank = 0; rank < ranks_; ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (tokens[index] != 0) continue;
    const auto token = entries.read(rank, static_cast<std::byte*>(all) + index * bytes, bytes);
    if (!token) continue;
    tokens[index] = *token;
    ++found;
  }
  return found;
}

Result Meeting::await_all(const MeetingEntries& entries, void* all, std::uint64_t bytes,
                          std::vector<std::uint64_t>& tokens) {
  const auto until = std::chrono::steady_clock::now() + longest_wait;
  auto check = std::chrono::steady_clock::now() + between_checks;
  int present = 0;
  for (std::uint32_t looks = 0; present < ranks_; ++looks) {
    present += read_new(entries, all, bytes, tokens);
    const auto now = std::chrono::steady_clock::now();
    if (present == ranks_ || now < check) {
      if (looks > 100) std::this_thread::sleep_for(std::chrono::microseconds(100));
      continue;
    }
    check = now + between_checks;
    const Result others = check_others(tokens);
    // A rank that has ended by now may have met all others, who came after this rank's last look.
    present += read_new(entries, all, bytes, tokens);
    if (present == ranks_) break;
    if (others != success) return others;
    if (now > until)
      return failed(
          remote_error,
          fmt::format("ncclCommInitRank: {} of {} ranks have come within {} minutes; rank "
                      "{} is the first that is missing: see what it does, and whether it "
                      "loads the same library and names the same pool",
                      present, ranks_, longest_wait.count(),
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
bool Meeting::await_all_gone(const MeetingEntries& entries,
                             const std::vector<std::uint64_t>& tokens) {
  const auto until = std::chrono::steady_clock::now() + longest_wait;
  for (int rank = 0; rank < ranks_; ++rank) {
    while (!entries.has_left(rank) &&
           penstock_pool_alive(pool_, tokens[static_cast<std::size_t>(rank)], nullptr, 0) != 0) {
      if (std::chrono::steady_clock::now() > until) return false;
      // That a rank has ended, as it may by now, is no reason.
      if (goes_on_ && goes_on_() == internal_error) return false;
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
  return true;
}

}  // namespace penstock::nccl
