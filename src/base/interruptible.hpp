// Ends waits for a reason unrelated to the awaited event.
#pragma once

#include "base/wait.hpp"

namespace penstock::base {

/// While it lives, waits of this thread call `check` as often as their dead checks: an error ends
/// the wait. Only the innermost one is called.
class Interruptible {
 public:
  explicit Interruptible(const DeadCheck& check);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  /// For a program that switches between threads of its own: makes `check` this thread's, and
  /// returns the one before. Null: none.
  static const DeadCheck* exchange(const DeadCheck* check);

 private:
  const DeadCheck* outer_;
};

}  // namespace penstock::base
