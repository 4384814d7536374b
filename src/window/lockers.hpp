// The lockers of a rank's segment: participants of its two locks, one for an epoch and one for an
// update, in a list in the pool that only grows. A rank joins at its first lock of the segment,
// under the pool's lock, by appending the location of its own lines. The list:
//
//   the rank's words, line lockers   7 locations | the next chunk
//   a chunk of 8 lines               63 locations | the next chunk
//
// A location is one word, appended whole. A reader that reads the list up to the first empty word
// knows all ranks that had joined by then. A rank that needs a new chunk makes it in its own
// memory.
#pragma once

#include <optional>
#include <vector>

#include "window/context.hpp"

namespace penstock::window {

class SegmentLocks {
 public:
  SegmentLocks(Context& context, std::uint32_t target);
  SegmentLocks(const SegmentLocks&) = delete;
  SegmentLocks& operator=(const SegmentLocks&) = delete;

  /// This rank's side of a lock; joins the lockers at the first call. Errors: no_space, deadline
  /// (of the pool's lock), wrong_format (the list was overwritten).
  Result<sync::OpenLock*> lock(Guarded what);
  /// True while a thread acquires the lock; other threads wait for their turn.
  bool& taken(Guarded what) { return taken_[static_cast<std::size_t>(what)]; }

 private:
  /// The lock lines of one of the locks.
  struct Lines final : sync::LockLines {
    Lines(SegmentLocks& of, Guarded guarded) : locks(of), what(guarded) {}
    std::uint32_t count() const override { return static_cast<std::uint32_t>(locks.all_.size()); }
    std::byte* line(std::uint32_t participant) const override;
    void invalidate_news() override;
    void load_news() override { locks.load_news(); }

    SegmentLocks& locks;
    Guarded what;
  };
  /// Position of the next location that is not read yet.
  struct Reader {
    std::uint64_t chunk;
    std::uint32_t words;
    std::uint32_t next = 0;

    std::uint64_t at() const { return chunk + 8ull * next; }
    bool at_end() const { return next + 1 == words; }  ///< the last word names the next chunk
  };

  Result<void> join();
  void load_news();
  bool append(std::uint64_t place, std::uint64_t chunk);

  Context& context_;
  std::uint32_t target_;
  Reader reader_;
  std::vector<std::uint64_t> all_;     ///< locations of the lockers' words
  std::optional<std::uint32_t> self_;  ///< this rank's index among them
  Lines lines_[2];
  std::optional<sync::OpenLock> locks_[2];
  bool taken_[2] = {};
};

}  // namespace penstock::window
