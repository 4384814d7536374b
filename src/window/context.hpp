// What the parts of a window share: the pool, the ranks, where the words are, and how to wait.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/wait.hpp"
#include "window/layout.hpp"
#include "window/window.hpp"

namespace penstock::window {

/// Ranks that have not done yet what is waited for; empty when all have.
using Missing = std::vector<std::uint32_t>;

/// A thread's stay in a protocol that waits in the middle. What says in the pool how far a rank has
/// come there exists once for all its threads.
class Turn {
 public:
  explicit Turn(bool& taken) : taken_(&taken) { taken = true; }
  Turn(Turn&& other) noexcept : taken_(std::exchange(other.taken_, nullptr)) {}
  Turn& operator=(Turn&&) = delete;
  ~Turn() {
    if (taken_ != nullptr) *taken_ = false;
  }

 private:
  bool* taken_;
};

/// For `penstock ps`: what a call waits for, when it has waited for a while.
class Waiting {
 public:
  explicit Waiting(pool::Pool& pool) : pool_(pool) {}
  ~Waiting() {
    if (told_) pool_.publish_activity("");
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  /// Now and then while it waits; cheap. `text` is asked once.
  template <class Text>
  void look(const Text& text) {
    if (!told_ && is_long()) tell(text());
  }

 private:
  bool is_long();
  void tell(const std::string& what);

  pool::Pool& pool_;
  std::uint64_t since_ns_ = 0;  ///< of the first look
  bool told_ = false;
};

class Context {
 public:
  Context(pool::Pool& the_pool, Options the_options);
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  pool::Pool& pool;
  const coherence::Memory memory;
  const Options options;
  const Layout layout;

  std::uint32_t self() const { return options.self; }
  std::uint32_t ranks() const { return static_cast<std::uint32_t>(options.members.size()); }
  const Member& member(std::uint32_t rank) const { return options.members[rank]; }
  std::byte* sync_area(std::uint64_t offset) const {
    return pool.base() + options.sync_area + offset;
  }
  std::byte* segment(std::uint32_t rank) const { return pool.base() + member(rank).offset; }
  /// Of the processes on this machine: how long to spin.
  const base::WaitPolicy& wait_policy() const { return wait_policy_; }

  /// Whether the caches of `rank` may hold what ours do not show.
  bool apart(std::uint32_t rank) const { return apart_[rank]; }
  bool alive(std::uint32_t rank) const { return pool.alive(member(rank).token); }
  sync::AliveCheck alive_check() const {
    return [this](std::uint64_t token) { return pool.alive(token); };
  }
  /// Until `look` leaves nobody in `missing`. Errors: peer_dead, when one of those has died or
  /// left.
  Result<void> wait(const char* what, Missing& missing, const std::function<void()>& look);
  /// peer_dead when `rank` has died; looks at most every 20 ms.
  Result<void> check_alive(std::uint32_t rank, const char* what);
  std::string name(std::uint32_t rank) const;
  /// That `rank` is gone; names who died, where that made it leave.
  tl::unexpected<Error> gone(const char* what, std::uint32_t rank) const;
  /// Between two looks of a wait: peers may wait for this rank meanwhile, and other threads of it
  /// may call (turn()).
  void idle() {
    constexpr std::uint32_t looks_between = 8;
    if (options.idle) options.idle();
    if (++idle_calls_ % looks_between == 0 && serve) serve();
  }
  /// Until no other thread of this rank is where `taken` stands for.
  Result<Turn> turn(const char* what, bool& taken);
  std::function<void()> serve;

 private:
  Result<void> find_dead(const char* what, const Missing& missing,
                         const std::function<void()>& look) const;
  base::WaitPolicy wait_policy_;
  std::vector<bool> apart_;
  std::vector<std::uint64_t> next_look_ns_;  ///< by rank
  std::uint32_t idle_calls_ = 0;
};

}  // namespace penstock::window
