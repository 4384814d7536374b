// A way to carry a message from one side to the other. The benchmarks measure several in turn.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.hpp"
#include "base/wait.hpp"

namespace penstock::bench {

class MessagePath {
 public:
  virtual ~MessagePath() = default;
  /// Returns when `data` may be used again.
  virtual Result<void> send(const std::byte* data, std::size_t bytes) = 0;
  /// Returns when a message of `bytes` lies in `to`.
  virtual Result<void> receive(std::byte* to, std::size_t bytes) = 0;

  /// Yields the core after each look in vain: for sides without a core of their own.
  void gives_its_core_away() { yields_ = true; }
  /// Looks in vain so far: no message, or no room for one.
  std::uint64_t in_vain() const { return in_vain_; }

 protected:
  void found_nothing() {
    ++in_vain_;
    if (yields_) base::Backoff::yield();
  }

 private:
  bool yields_ = false;
  std::uint64_t in_vain_ = 0;
};

}  // namespace penstock::bench
