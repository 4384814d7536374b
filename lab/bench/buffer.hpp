// Private buffers with random contents: lines of zeros make stores look twice as fast as they are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace penstock::bench {

class Buffer {
 public:
  /// The same seed gives the same bytes, so that a receiver can check what a sender sent.
  Buffer(std::size_t bytes, std::uint64_t seed);
  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const;
  };
  std::unique_ptr<std::byte[], Free> data_;
};

}  // namespace penstock::bench
