// A sleep made of base::Waiter.
#pragma once

#include <cstdint>

#include "base/wait.hpp"

namespace penstock::pool {

class Pause {
 public:
  explicit Pause(std::uint64_t ns)
      : waiter_("time to pass", ns, {},
                base::WaitPolicy{.spins = 0, .yields = 0, .sleep_ns = 2'000'000}) {}
  /// False after `ns` have passed.
  bool more() { return waiter_.pause().has_value(); }

 private:
  base::Waiter waiter_;
};

}  // namespace penstock::pool
