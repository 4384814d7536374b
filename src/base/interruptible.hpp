// Ends waits for a reason that has nothing to do with the awaited event.
#pragma once

#include "base/wait.hpp"

namespace penstock::base {

/// While it lives, waits of this thread call `check` as they call their dead checks: an error ends
/// the wait. Only the innermost one counts.
class Interruptible {
 public:
  explicit Interruptible(const DeadCheck& check);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

 private:
  const DeadCheck* outer_;
};

}  // namespace penstock::base
