// Ordinary memory in place of a pool, filled with garbage, for tests of the layers below Arena.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <random>

#include "arena/formatting.hpp"
#include "arena/name_table.hpp"
#include "arena/space.hpp"

namespace penstock::arena {

class TestMemory {
 public:
  explicit TestMemory(std::uint64_t bytes, std::uint64_t seed = 1)
      : bytes_(bytes),
        storage_(static_cast<std::byte*>(std::aligned_alloc(4096, bytes)), &std::free) {
    std::mt19937_64 random(seed);
    for (std::uint64_t at = 0; at < bytes; at += 8) {
      const std::uint64_t garbage = random();
      std::memcpy(storage_.get() + at, &garbage, 8);
    }
    std::memset(storage_.get(), 0, 4096);  // as the pool's tables are
  }

  std::byte* base() { return storage_.get(); }
  std::uint64_t bytes() const { return bytes_; }
  Region region() { return Region(*coherence::bind(coherence::Mode::hardware), storage_.get()); }
  pool::FlushTable flushes() { return flushes(*coherence::bind(coherence::Mode::hardware)); }
  pool::FlushTable flushes(const coherence::Memory& memory) {
    return {memory, storage_.get(), 0, 4};
  }
  Placement placement() const { return {0x1234'5678'9abc'def1, 4096, bytes_ - 4096}; }

 private:
  std::uint64_t bytes_;
  std::unique_ptr<std::byte, decltype(&std::free)> storage_;
};

}  // namespace penstock::arena
