// By TCP, where unique ids cannot say all: one process, the root, listens; the ranks ask it for the
// pool and the key of their meeting in it. Whatever else comes to the port is closed and forgotten.
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

/// What a rank sends; nothing else is read from it.
struct Question {
  static constexpr std::uint64_t our_magic = 0x31302d4c43434e50;  // "PNCCL-01"
  std::uint64_t magic = our_magic, key = 0, host = 0;
  std::int32_t rank = 0, ranks = 0;
  std::uint32_t names_pool = 0;  ///< PENSTOCK_POOL is set
  char host_name[92] = "";
};
static_assert(sizeof(Question) == 128);

/// What it is told.
struct Answer {
  static constexpr std::uint64_t come_in = 1, refused = 2;
  std::uint64_t magic = Question::our_magic, verdict = 0, key = 0;
  char spec[1000] = "";   ///< of the pool
  char words[1000] = "";  ///< why it is refused
};

class Root {
 public:
  /// What ranks are told.
  struct Place {
    std::uint64_t key = 0;  ///< of the meeting
    std::string spec;
    bool is_named = false;  ///< by PENSTOCK_POOL here
    int ranks = 0;          ///< each is told once; 0: whoever asks
  };
  /// Listens at `address`, whose port 0 becomes a free one. Errors: those of listen_at().
  static Result start(Address& address, std::unique_ptr<Root>& root);
  ~Root();
  Root(const Root&) = delete;
  Root& operator=(const Root&) = delete;

  /// Ranks that ask by `key` are told of `place`.
  void add(std::uint64_t key, const Place& place);
  /// Why a rank that asked by `key` was refused, if one was.
  std::optional<std::string> trouble(std::uint64_t key) const;

 private:
  struct Client;
  struct Known {
    Place place;
    std::set<int> told;
    std::string trouble;
  };
  Root() = default;
  void run();
  void accept_all(std::map<int, Client>& clients) const;
  bool serve(Client& client);
  Answer answer(const Question& question);

  base::ProcessFd listening_, wake_;
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Known> known_;  ///< by what ranks ask for
  std::thread thread_;
};

/// Asks the root at `address`. `may_come_later`: it need not listen yet. Another thread ends the
/// wait by `aborted`. Errors: remote_error, it does not answer; invalid_usage, it refuses this
/// rank.
Result ask_root(const Address& address, const Question& question, bool may_come_later,
                const std::atomic<bool>& aborted, Answer& answer);

}  // namespace penstock::nccl
