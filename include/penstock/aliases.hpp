// Where else in this process a pool is mapped: by another copy of the library (libpenstock.so and
// the provider each hold one), or by the program itself. Memory of a user that lies in the pool is
// recognised by it. Source: memory-model "Two-sided: channels", rendezvous by offset.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

namespace penstock::pool {

/// All mappings of a pool in this process, as of the last refresh(), and the pool's own always.
/// Thread-safe.
class Aliases {
 public:
  /// Of the pool that is mapped at `base`. Nothing but that is known before the first refresh().
  Aliases(const std::byte* base, std::uint64_t bytes);
  Aliases(const Aliases&) = delete;
  Aliases& operator=(const Aliases&) = delete;

  /// Pool offset of [address, address + bytes); nullopt where it does not lie in one mapping of
  /// the pool. No system call, no lock unless a refresh is just writing. A mapping that went after
  /// the last refresh is still believed in.
  std::optional<std::uint64_t> offset_of(const void* address, std::uint64_t bytes) const;
  /// Looks at /proc/self/maps. Mappings are known by device, inode and offset, and must be shared:
  /// a private one shows other bytes once it was written to. Of more than `most_mappings` runs of
  /// addresses the longest are kept.
  void refresh();
  /// As refresh(), from text as /proc/self/maps has it.
  void refresh_from(std::string_view maps);

  static constexpr std::uint32_t most_mappings = 16;

 private:
  /// [begin, end) is the pool from `offset` on.
  struct Range {
    std::uint64_t begin = 0, end = 0, offset = 0;
  };
  struct SharedRange {
    std::atomic<std::uint64_t> begin{0}, end{0}, offset{0};
  };
  std::optional<std::uint64_t> offset_in(const Range& range, std::uint64_t at,
                                         std::uint64_t bytes) const;
  std::optional<std::uint64_t> look_up(std::uint64_t at, std::uint64_t bytes) const;
  void publish(std::vector<Range> found);

  const Range own_;
  std::atomic<std::uint32_t> version_{0};  ///< odd while `ranges_` is being written
  std::atomic<std::uint32_t> count_{0};
  SharedRange ranges_[most_mappings];
  mutable std::mutex refreshing_;
};

}  // namespace penstock::pool
