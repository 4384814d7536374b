// Helpers for a thread that waits for other ranks: they publish its wait, and keep its turn.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "pool/pool.hpp"

namespace penstock::group {

/// Held by the one thread of a rank that is inside a protocol with a wait in it. All threads of the
/// rank share its words in the pool, so the next thread waits for its turn.
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

/// Shows in `penstock ps` what a call waits for, once it has waited for 0.3 s. A call may have
/// several waits, one after the other.
class Waiting {
 public:
  explicit Waiting(pool::Pool& pool) : pool_(pool) {}
  ~Waiting() {
    if (!published_.empty()) pool_.publish_activity("");
  }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  /// Call it now and then while waiting; cheap. Calls `text` at most every half second.
  template <class Text>
  void look(const Text& text) {
    if (is_time()) publish(text());
  }

 private:
  bool is_time();
  void publish(const std::string& what);

  pool::Pool& pool_;
  std::uint64_t since_ns_ = 0;  ///< start of the present wait; 0: it was not looked at yet
  std::uint64_t next_ns_ = 0;
  std::string published_;
};

}  // namespace penstock::group
