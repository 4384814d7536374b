// Further mappings of a pool in this process, besides the pool's own: by another copy of the
// library (libpenstock.so and the provider each hold one), or by the program itself. They identify
// user memory that lies in the pool. For rendezvous: docs/protocols/channel.md.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string_view>
#include <vector>

namespace penstock::device {

/// The pool's own mapping, and all others in this process as of the last refresh(). Thread-safe.
class PoolMappings {
 public:
  /// A process slot of the pool under which this process is attached.
  struct Attachment {
    std::uint64_t base = 0;  ///< address of its mapping; 0: no attachment
    std::uint32_t slot = 0;
    std::uint64_t generation = 0;  ///< of the slot

    bool operator==(const Attachment&) const = default;
  };
  /// Finds the attachments of this process. Implemented by the pool.
  class Attachments {
   public:
    virtual ~Attachments() = default;
    virtual std::vector<Attachment> of_this_process() const = 0;
    /// True if not detached yet. For hot paths: no system call.
    virtual bool still_attached(const Attachment& attachment) const = 0;
  };

  /// `base`: the pool's own mapping, the only one known before the first refresh(). `attachments`
  /// may be null, else it must outlive this object.
  PoolMappings(const std::byte* base, std::uint64_t bytes,
               const Attachments* attachments = nullptr);
  PoolMappings(const PoolMappings&) = delete;
  PoolMappings& operator=(const PoolMappings&) = delete;

  /// Pool offset of [address, address + bytes); nullopt unless it lies in one mapping of the pool.
  /// No system call, no lock unless a refresh is writing. May return an offset in a mapping that
  /// was removed since the last refresh.
  std::optional<std::uint64_t> offset_of(const void* address, std::uint64_t bytes) const;
  /// As offset_of, but only in mappings of attachments that still exist. Excludes the program's own
  /// mappings, because nothing reports their end.
  std::optional<std::uint64_t> attached_offset_of(const void* address, std::uint64_t bytes) const;
  /// Reads /proc/self/maps. Identifies mappings by device, inode and offset. They must be shared: a
  /// private one shows other bytes after a store. If there are more than `max_mappings` ranges of
  /// addresses, keeps the longest.
  void refresh();
  /// refresh(), if this process has attached or detached since the last call.
  void follow_attachments();
  /// As refresh(), from text in the format of /proc/self/maps.
  void refresh_from(std::string_view maps);

  static constexpr std::uint32_t max_mappings = 16;

 private:
  /// [begin, end) maps the pool from `offset` on.
  struct Range {
    std::uint64_t begin = 0, end = 0, offset = 0;
    Attachment owner;  ///< attachment that made the mapping, if known

    bool holds(std::uint64_t at, std::uint64_t bytes) const {
      return at >= begin && at < end && bytes <= end - at;
    }
  };
  struct SharedRange {
    std::atomic<std::uint64_t> begin{0}, end{0}, offset{0}, owner_generation{0};
    std::atomic<std::uint32_t> owner_slot{0};
  };
  std::optional<Range> range_of(std::uint64_t at, std::uint64_t bytes) const;
  std::optional<Range> look_up(std::uint64_t at, std::uint64_t bytes) const;
  /// The mappings of the pool besides its own, from text in the format of /proc/self/maps.
  std::vector<Range> find(std::string_view maps) const;
  void publish(std::vector<Range> found, const std::vector<Attachment>& attachments);

  const Range own_;
  const Attachments* const attachments_;
  std::atomic<std::uint32_t> version_{0};  ///< odd while `ranges_` is being written
  std::atomic<std::uint32_t> count_{0};
  SharedRange ranges_[max_mappings];
  mutable std::mutex refreshing_;
  std::mutex following_;
  std::vector<Attachment> followed_;
};

}  // namespace penstock::device
