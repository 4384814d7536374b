#include "nccl/invitation.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <utility>
#include <vector>

#include "base/checksum.hpp"
#include "base/format.hpp"
#include "nccl/meeting.hpp"
#include "nccl/outcome.hpp"
#include "penstock/penstock.h"

namespace penstock::nccl {

namespace {

/// State of this process; a forked child does not inherit it.
struct Mine {
  std::mutex mutex;
  pid_t process = 0;
  std::string temporary_pool;
  Root* root = nullptr;  ///< serves all ids of this process; deleted in at_exit()
  Address address;       ///< of `root`
};
Mine& mine() {
  static auto& there = *new Mine;  // never destroyed: threads may outlive static destructors
  return there;
}

void at_exit() {
  const std::lock_guard<std::mutex> guard(mine().mutex);
  if (getpid() != mine().process) return;
  delete std::exchange(mine().root, nullptr);
  if (!mine().temporary_pool.empty()) penstock_pool_remove(mine().temporary_pool.c_str(), 1);
  mine().temporary_pool.clear();
}

/// Resets the state in a forked child. The caller holds the mutex.
void begin_here() {
  static const bool registered = std::atexit(at_exit) == 0;
  (void)registered;
  if (std::exchange(mine().process, getpid()) == getpid()) return;
  mine().temporary_pool.clear();
  mine().root = nullptr;  // its thread exists in the parent only
}

std::uint64_t random_key() {
  std::random_device random;
  return (std::uint64_t{random()} << 32 | random()) | 1;
}

/// The number of ranks, from launchers' environment variables; 8 if none tells.
std::uint32_t likely_ranks() {
  for (const char* name : {"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS"}) {
    const char* const text = std::getenv(name);
    const long ranks = text != nullptr ? std::strtol(text, nullptr, 10) : 0;
    if (ranks > 0 && ranks < 4096) return static_cast<std::uint32_t>(ranks);
  }
  return 8;
}

/// Makes one temporary pool for all unique ids of the process: a pool takes much of the host's
/// memory. The caller holds the mutex.
Result make_temporary_pool(std::string& spec) {
  if (mine().temporary_pool.empty()) {
    char made[64] = "";
    const auto status = penstock_pool_create_temporary(likely_ranks(), made, sizeof made);
    if (status != PENSTOCK_OK) return outcome(status, "ncclGetUniqueId");
    mine().temporary_pool = made;
  }
  spec = mine().temporary_pool;
  return success;
}

/// Builds the answer for ranks that ask this process.
Result make_place(std::uint64_t key, int ranks, Root::Place& place) {
  place = {.key = key, .spec = penstock_default_spec(), .ranks = ranks};
  place.is_named = !place.spec.empty();
  if (place.is_named && place.spec.size() < sizeof Answer::spec) return success;
  if (place.is_named)
    return failed(invalid_usage, "ncclGetUniqueId: the name of the pool is too long");
  const std::lock_guard<std::mutex> guard(mine().mutex);
  begin_here();
  return make_temporary_pool(place.spec);
}

Result invite_by_root(Invitation& invitation) {
  Root::Place place;
  if (const Result made = make_place(invitation.key, 0, place); made != success) return made;
  const std::lock_guard<std::mutex> guard(mine().mutex);
  begin_here();
  if (mine().root == nullptr) {
    std::unique_ptr<Root> root;
    if (const Result found = own_address(mine().address); found != success) return found;
    if (const Result begun = Root::start(mine().address, root); begun != success) return begun;
    mine().root = root.release();
  }
  mine().root->add(invitation.key, place);
  invitation.root = mine().address;
  return success;
}

/// With NCCL_COMM_ID, rank 0 is the root for this communicator.
Result accept_as_root(const Invitation& invitation, int ranks, Venue& venue) {
  Root::Place place;
  if (const Result made = make_place(random_key(), ranks, place); made != success) return made;
  Address address = invitation.root;
  if (const Result begun = Root::start(address, venue.root); begun != success) {
    const std::string why = last_error();
    return failed(begun, fmt::format("ncclCommInitRank: NCCL_COMM_ID: {}", why));
  }
  venue.root->add(invitation.key, place);
  venue.spec = place.spec;
  venue.key = place.key;
  return success;
}

Result accept_by_root(const Invitation& invitation, int rank, int ranks,
                      const std::atomic<bool>& aborted, Venue& venue) {
  const std::string named = penstock_default_spec();
  Question question;
  question.key = invitation.key;
  question.host = this_host();
  question.rank = rank;
  question.ranks = ranks;
  question.names_pool = named.empty() ? 0 : 1;
  (void)gethostname(question.host_name, sizeof question.host_name - 1);
  Answer answer;
  const Result asked = ask_root(invitation.root, question, invitation.is_env != 0, aborted, answer);
  if (asked != success) return asked;
  venue.key = answer.key;
  venue.spec = named.empty() ? answer.spec : named;
  return success;
}

}  // namespace

Result invite(UniqueId& id) {
  Invitation invitation{.magic = Invitation::our_magic, .key = random_key(), .host = this_host()};
  const char* const env = std::getenv("NCCL_COMM_ID");
  const std::string named = penstock_default_spec();
  Result result = success;
  if (env != nullptr && *env != 0) {
    invitation.is_env = 1;
    invitation.key = base::xxh64(env, std::strlen(env), 0) | 1;  // the same on all ranks
    invitation.host = 0;
    result = parse_address(env, invitation.root);
  } else if (!named.empty() && named.size() < sizeof invitation.spec) {
    named.copy(invitation.spec, sizeof invitation.spec - 1);
  } else {
    result = invite_by_root(invitation);
  }
  if (result != success) return result;
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

Result accept(const Invitation& invitation, int rank, int ranks, const std::atomic<bool>& aborted,
              Venue& venue) {
  if (invitation.is_env != 0 && rank == 0) return accept_as_root(invitation, ranks, venue);
  if (invitation.root.family != 0) return accept_by_root(invitation, rank, ranks, aborted, venue);
  const std::string named = penstock_default_spec();
  venue.spec = named.empty() ? invitation.spec : named;
  venue.key = invitation.key;
  if (!named.empty() || invitation.host == this_host()) return success;
  return failed(invalid_usage,
                fmt::format("rank {} runs on another host than the process that called "
                            "ncclGetUniqueId: set PENSTOCK_POOL on all hosts to a pool that all "
                            "of them share",
                            rank));
}

std::optional<std::string> refusal_of(const Invitation& invitation) {
  const std::lock_guard<std::mutex> guard(mine().mutex);
  if (getpid() != mine().process || mine().root == nullptr) return std::nullopt;
  return mine().root->refusal(invitation.key);
}

}  // namespace penstock::nccl
