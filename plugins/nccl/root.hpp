// A TCP service for unique ids that do not name a pool. One process, the root, listens; ranks ask
// it for the pool and for the key of their meeting in it. Any other connection is closed.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "base/fork.hpp"
#include "nccl/address.hpp"

namespace penstock::nccl {

/// The only message that a rank sends.
struct Question {
  static constexpr std::uint64_t our_magic = 0x31302d4c43434e50;  // "PNCCL-01"
  std::uint64_t magic = our_magic, key = 0, host = 0;
  std::int32_t rank = 0, ranks = 0;
  std::uint32_t names_pool = 0;  ///< PENSTOCK_POOL is set
  char host_name[92] = "";
};
static_assert(sizeof(Question) == 128);

/// The root's answer.
struct Answer {
  static constexpr std::uint64_t accepted = 1, refused = 2;
  std::uint64_t magic = Question::our_magic, verdict = 0, key = 0;
  char spec[1000] = "";   ///< the pool's SPEC
  char words[1000] = "";  ///< why the rank is refused
};

class Root {
 public:
  /// The answer for the ranks of one communicator.
  struct Place {
    std::uint64_t key = 0;  ///< key of the meeting
    std::string spec;
    bool is_named = false;  ///< this process's PENSTOCK_POOL names the pool
    int ranks = 0;          ///< each rank is answered once; 0: answers every question
  };
  /// Listens at `address`; port 0 is replaced by a free port. Errors: those of listen_at().
  static Result start(Address& address, std::unique_ptr<Root>& root);
  ~Root();
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  /// From now on, answers questions about `key` with `place`. Thread-safe, as all members.
  void add(std::uint64_t key, const Place& place);
  /// Why a rank that asked about `key` was refused; nullopt if none was.
  std::optional<std::string> refusal(std::uint64_t key) const;

 private:
  struct Client;
  struct Known {
    Place place;
    std::set<int> answered;
    std::string refusal;
  };
  Root() = default;
  void run();
  void accept_all(std::map<int, Client>& clients) const;
  bool serve(Client& client);
  Answer answer(const Question& question);

  base::ProcessFd listening_, wake_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Known> known_;  ///< keyed by Question::key
  std::thread thread_;
};

/// Asks the root at `address`. `may_start_later`: the root may start listening later. Another
/// thread can set `aborted` to end the wait. Errors: remote_error if the root does not answer;
/// invalid_usage if it refuses this rank; internal_error if aborted.
Result ask_root(const Address& address, const Question& question, bool may_start_later,
                const std::atomic<bool>& aborted, Answer& answer);

}  // namespace penstock::nccl
