// A way to carry a message from one side to the other. The benchmarks run several in turn.
#pragma once

#include <cstddef>

#include "base/status.hpp"

namespace penstock::bench {

class MessagePath {
 public:
  virtual ~MessagePath() = default;
  /// Returns when `data` may be used again.
  virtual Result<void> send(const std::byte* data, std::size_t bytes) = 0;
  /// Returns when a message of `bytes` lies in `to`.
  virtual Result<void> receive(std::byte* to, std::size_t bytes) = 0;
};

}  // namespace penstock::bench
