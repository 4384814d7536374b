// A group of processes that work together over a pool, each known by its rank: their tokens, which
// of them have caches that are not coherent with this process's, which are alive, and how to wait
// for them. Windows use it. It has no words of its own in the pool; those of the barrier are in
// barrier.hpp.
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

/// Ranks that are still awaited; empty when the wait is over.
using Missing = std::vector<std::uint32_t>;

struct Options {
  std::vector<std::uint64_t> tokens;  ///< by rank: pool::Pool::token() of its process
  /// By rank: pool::Pool::node() of its process, or other numbers that are equal only for ranks of
  /// one node; empty: the pool is asked. The same on all ranks.
  std::vector<std::uint32_t> nodes{};
  std::uint32_t self = 0;      ///< this process's rank
  std::string noun = "group";  ///< its name in messages: "rank 3 of the group"
  /// Called between two looks of a wait, to make progress elsewhere. Other threads may use the
  /// group while it runs.
  std::function<void()> idle;
};

/// The ranks that a wait really depends on, if the polled ranks only pass on what others do. For
/// the slow parts of a wait.
class Culprits {
 public:
  /// Ranks that may keep the waiter waiting: all of them to name in a message; or, to check for
  /// deaths, some at a time and all over time.
  virtual Missing some(bool to_name) = 0;
  /// Reads the pool: may others still wait for the rank?
  virtual bool is_still(std::uint32_t rank) = 0;

 protected:
  ~Culprits() = default;
};

/// One rank's view of its group. Never throws. One thread at a time may be in a call, not counting
/// threads that are in Options::idle; several may be in wait() where `idle` allows it.
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

  /// True if the caches of `rank` are not coherent with this process's: it runs on another node,
  /// and the pool's mode does not rely on coherence.
  bool apart(std::uint32_t rank) const { return apart_[rank]; }
  bool any_apart() const;
  /// Equal for ranks of one node.
  std::uint32_t node(std::uint32_t rank) const { return nodes_[rank]; }
  /// Reads the record of `rank` in the pool: a few device accesses.
  bool alive(std::uint32_t rank) const { return pool.alive(token(rank)); }
  sync::AliveCheck alive_check() const {
    return [this](std::uint64_t token) { return pool.alive(token); };
  }
  /// Returns peer_dead if `rank` has died or left. Checks each rank at most every 20 ms.
  Result<void> check_alive(std::uint32_t rank, const char* what);
  /// The same, but checks at once.
  Result<void> check_alive_now(std::uint32_t rank, const char* what) const;
  /// Returns invalid_argument if the group has no such rank.
  Result<void> check_rank(std::uint32_t rank) const;
  /// Sets a process without a rank, which is awaited when `missing` holds this rank itself; 0:
  /// none. `noun` names it in all texts, such as "the switch".
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
  /// The text by which `penstock ps` shows a wait for `missing`, which must not be empty.
  std::string waits_for(const char* what, const Missing& missing) const;

  /// Calls `look` until `missing` is empty. `what` names the wait in messages. There is no
  /// deadline, because the others may be busy: every PENSTOCK_TIMEOUT_MS a message on standard
  /// error names the awaited ranks. Errors: peer_dead if one of `missing` has died or left; with
  /// `culprits`, if one of those has.
  Result<void> wait(const char* what, Missing& missing, const std::function<void()>& look,
                    Culprits* culprits = nullptr);
  /// Runs between two looks of a wait: lets other threads of this rank call, and serves peers.
  void idle() {
    constexpr std::uint32_t looks_between = 8;
    if (options_.idle) options_.idle();
    if (serve_ && ++idle_calls_ % looks_between == 0) serve_();
  }
  /// Sets `serve`, which answers requests of peers while this rank waits.
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
  const base::WaitPolicy wait_policy_;  ///< fewer spins if processes outnumber cores
  std::vector<std::uint32_t> nodes_;
  std::vector<bool> apart_;
  std::vector<std::uint64_t> next_look_ns_;  ///< by rank
  std::uint64_t stand_in_ = 0;
  const char* stand_in_noun_ = "";
  std::uint32_t idle_calls_ = 0;
  std::function<void()> serve_;
};

}  // namespace penstock::group
