// A group of processes that work together over a pool, each known by its rank: their tokens, which
// of them have caches that are not coherent with ours, which are alive, and how to wait for them.
// Windows use it. It has no words of its own in the pool; the barrier's are in barrier.hpp.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/wait.hpp"
#include "group/waiting.hpp"
#include "pool/pool.hpp"
#include "sync/sync.hpp"

namespace penstock::group {

/// Ranks that a wait still waits for; empty when it is over.
using Missing = std::vector<std::uint32_t>;

struct Options {
  std::vector<std::uint64_t> tokens;  ///< by rank: pool::Pool::token() of its process
  /// By rank: pool::Pool::node() of its process, or other numbers that are equal for ranks of one
  /// node alone; empty: the pool is asked. The same on all ranks.
  std::vector<std::uint32_t> nodes{};
  std::uint32_t self = 0;      ///< this process's rank
  std::string noun = "group";  ///< its name in messages: "rank 3 of the group"
  /// Called between two looks of a wait, to make progress elsewhere. Other threads may use the
  /// group while it runs.
  std::function<void()> idle;
};

/// Whom a wait is really for, where those that are looked at pass on what others do. For the slow
/// parts of a wait.
class Culprits {
 public:
  /// Ranks that may keep the waiter waiting. Those to name in a message; or those to check for
  /// their deaths, which may be some at a time: all of them by and by.
  virtual Missing some(bool to_name) = 0;
  /// A look at the pool: may the rank keep others waiting?
  virtual bool is_still(std::uint32_t rank) = 0;

 protected:
  ~Culprits() = default;
};

/// One rank's view of its group. Throws nothing. One thread at a time may be in a call, not
/// counting threads that are in Options::idle; in wait() several where `idle` allows it.
///
///     group::Group group(pool, {.tokens = {mine, theirs}, .self = 0});
///     group::Missing missing{1};
///     auto look = [&] { if (memory.observe_word(flag) != 0) missing.clear(); };
///     auto come = group.wait("the other rank's flag", missing, look);  // peer_dead if it dies
class Group {
 public:
  Group(pool::Pool& pool, Options options);
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;

  pool::Pool& pool;
  const coherence::Memory memory;

  std::uint32_t self() const { return options_.self; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(options_.tokens.size()); }
  Missing others() const;  ///< all ranks but this one
  std::uint64_t token(std::uint32_t rank) const { return options_.tokens[rank]; }

  /// True if the caches of `rank` are not coherent with ours: it runs on another node, and the
  /// pool's mode keeps no caches coherent.
  bool apart(std::uint32_t rank) const { return apart_[rank]; }
  bool any_apart() const;
  /// Equal for ranks of one node.
  std::uint32_t node(std::uint32_t rank) const { return nodes_[rank]; }
  /// Reads `rank`'s record in the pool: a few device accesses.
  bool alive(std::uint32_t rank) const { return pool.alive(token(rank)); }
  sync::AliveCheck alive_check() const {
    return [this](std::uint64_t token) { return pool.alive(token); };
  }
  /// peer_dead when `rank` has died or left. Looks at most every 20 ms for each rank.
  Result<void> check_alive(std::uint32_t rank, const char* what);
  /// The same, at once.
  Result<void> check_alive_now(std::uint32_t rank, const char* what) const;
  /// invalid_argument when the group has no such rank.
  Result<void> check_rank(std::uint32_t rank) const;
  /// A process without a rank that is waited for where `missing` holds this rank itself; 0: none.
  /// `noun` says what it is in all texts, as "the switch".
  void set_stand_in(std::uint64_t token, const char* noun = "") {
    stand_in_ = token;
    stand_in_noun_ = noun;
  }
  /// "rank 3 of the group, rank 1 (pid 4711, on node02)".
  std::string name(std::uint32_t rank) const;

  /// "rank 3 of the group, ...; rank 5 ...; 2 others".
  std::string names(const Missing& missing) const;
  /// "3 of 8 ranks: ", and their names.
  std::string awaited(const Missing& missing) const;
  /// As `penstock ps` shows a wait for `missing`, of which there is one at least.
  std::string waits_for(const char* what, const Missing& missing) const;

  /// Calls `look` until `missing` is empty. `what` names the wait in messages. There is no
  /// deadline, since the others may be busy: every PENSTOCK_TIMEOUT_MS a message on standard
  /// error names the ranks that are waited for. Errors: peer_dead, when one of `missing` has died
  /// or left; of the `culprits` where there are such.
  Result<void> wait(const char* what, Missing& missing, const std::function<void()>& look,
                    Culprits* culprits = nullptr);
  /// Runs between two looks of a wait: lets other threads of this rank call, and serves peers.
  void idle() {
    constexpr std::uint32_t looks_between = 8;
    if (options_.idle) options_.idle();
    if (serve_ && ++idle_calls_ % looks_between == 0) serve_();
  }
  /// `serve` answers requests of peers while this rank itself waits.
  void serve_by(std::function<void()> serve) { serve_ = std::move(serve); }
  /// Waits until no other thread of this rank holds `taken`, then takes it.
  Result<Turn> turn(const char* what, bool& taken);

 private:
  Result<void> find_dead(const char* what, const Missing& missing,
                         const std::function<void()>& look, Culprits* culprits) const;
  tl::unexpected<Error> gone(const char* what, std::uint32_t rank) const;
  bool has_stand_in(std::uint32_t rank) const { return rank == self() && stand_in_ != 0; }
  bool is_another(const Missing& missing) const {
    return missing.size() == 1 && has_stand_in(missing.front());
  }

  const Options options_;
  const base::WaitPolicy wait_policy_;  ///< fewer spins where processes outnumber cores
  std::vector<std::uint32_t> nodes_;
  std::vector<bool> apart_;
  std::vector<std::uint64_t> next_look_ns_;  ///< by rank
  std::uint64_t stand_in_ = 0;
  const char* stand_in_noun_ = "";
  std::uint32_t idle_calls_ = 0;
  std::function<void()> serve_;
};

}  // namespace penstock::group
