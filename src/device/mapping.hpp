// Maps a pool's parts as one range of addresses.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "device/part.hpp"
#include "device/superblock.hpp"

namespace penstock::device {

/// Owns a range of addresses.
class Mapping {
 public:
  Mapping() = default;
  Mapping(std::byte* base, std::uint64_t bytes) : base_(base), bytes_(bytes) {}
  Mapping(Mapping&& other) noexcept { swap(other); }
  Mapping& operator=(Mapping&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Mapping();
  std::byte* base() const { return base_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  void swap(Mapping& other) {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
  }
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// Maps the beginning of one part, with its superblock. The part must be at least a page long.
Result<Mapping> map_header(const OpenPart& part, Access access);
/// Maps the whole pool; the stripes of several parts alternate. The caller has checked that every
/// part is as long as `superblock` says.
Result<Mapping> map_pool(const std::vector<OpenPart>& parts, const Superblock& superblock,
                         Access access);
/// The stripe size in bytes such that at most max_mappings are needed; a multiple of `unit`.
std::uint64_t stripe_bytes_for(std::uint64_t part_data_bytes, std::uint32_t parts,
                               std::uint64_t unit);

}  // namespace penstock::device
