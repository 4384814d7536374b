// Waits that end for a reason that has nothing to do with what they wait for.
#pragma once

#include "base/wait.hpp"

namespace penstock::base {

/// While it lives, the waits of this thread ask `check` as they ask their dead checks: an error
/// ends them. The innermost counts.
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
