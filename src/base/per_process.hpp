// Static state that a forked child must not share with its parent.
#pragma once

#include <atomic>

#include "base/fork.hpp"

namespace penstock::base {

/// One T for each process. A forked child gets a new one, since its copy of the parent's may be
/// locked for ever. Lives as long as the process.
template <class T>
class PerProcess {
 public:
  T& here() {
    Made* found = made_.load(std::memory_order_acquire);
    if (found != nullptr && found->origin.here()) return found->value;
    auto* made = new Made;
    if (made_.compare_exchange_strong(found, made)) return made->value;
    delete made;  // another thread was faster
    return found->value;
  }

 private:
  struct Made {
    Origin origin;
    T value{};
  };
  std::atomic<Made*> made_{nullptr};
};

}  // namespace penstock::base
