// A line that changes in whole steps, although a CPU without 64-byte stores may die within one: two
// lines take turns.
#pragma once

#include <optional>

#include "persist/device.hpp"
#include "persist/layout.hpp"

namespace penstock::persist {

/// One writer; readers need no lock.
class LinePair {
 public:
  /// `distance`: bytes from one line to the other.
  LinePair(const Device& device, std::uint64_t offset, std::uint64_t distance, std::uint64_t key)
      : device_(device), offset_(offset), distance_(distance), key_(key) {}

  /// Returns the greatest whole step; nullopt if neither line is whole. One serialized device
  /// access.
  std::optional<PairLine> latest() const;
  /// Overwrites the line of the step before last. The caller orders it.
  void publish_line(std::uint64_t step, const PairLine& contents, Site site = Site::here()) const {
    PairLine line = contents;
    line.step = step;
    line.checksum = checksum_of(line, key_);
    device_.publish_line(place(step), &line, site);  // pairs with latest()
  }
  std::uint64_t place(std::uint64_t step) const { return offset_ + (step & 1) * distance_; }
  /// Writes the line into the file. Errors: unavailable.
  Result<void> sync(std::uint64_t step) const { return device_.sync(place(step), line_bytes); }

 private:
  Device device_;
  std::uint64_t offset_, distance_, key_;
};

}  // namespace penstock::persist
