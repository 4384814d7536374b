// The last events of a run, and the nodes that held their lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/memory/core.hpp"

namespace penstock::sim {

class Trace {
 public:
  struct Entry {
    std::uint64_t step;
    std::uint32_t node, process;
    Event event;
    std::uint64_t line, word;
    std::uint64_t held, dirty;  ///< nodes with a copy, and with a dirty one, one bit each
  };

  void add(const Entry& entry) {
    entries_[count_ % capacity] = entry;
    ++count_;
  }
  /// The last `most` events, oldest first.
  std::string text(std::uint64_t most = capacity) const;

 private:
  static constexpr std::uint64_t capacity = 4096;
  std::vector<Entry> entries_{capacity};
  std::uint64_t count_ = 0;
};

}  // namespace penstock::sim
