// The pool's bytes as the arena accesses them: by offset, through coherence::Memory, with a hook by
// which the crash tests stop a process.
#pragma once

#include <cstdint>
#include <functional>

#include "arena/layout.hpp"
#include "coherence/coherence.hpp"
#include "pool/pool.hpp"

namespace penstock::arena {

using coherence::Site;

/// Called after each publish when set. For the crash tests only.
std::function<void()>& after_publish_hook();

/// Cheap to copy. The caller has checked every offset against the Geometry. With a pool, a process
/// that was stopped and that others have declared dead meanwhile stores nothing.
class Region {
 public:
  Region(const coherence::Memory& memory, std::byte* base) : memory_(memory), base_(base) {}
  explicit Region(const pool::Pool& pool)
      : memory_(pool.memory()), base_(pool.base()), pool_(&pool) {}

  std::byte* at(std::uint64_t offset) const { return base_ + offset; }

  void publish_line(std::uint64_t offset, const void* line, Site site = Site::here()) const {
    confirm();
    memory_.publish_line(at(offset), line, site);
    published();
  }
  void publish_word(std::uint64_t offset, std::uint64_t value, Site site = Site::here()) const {
    confirm();
    memory_.publish_word(at(offset), value, site);
    published();
  }
  /// `offset` and `bytes`: whole lines.
  void publish_zeros(std::uint64_t offset, std::uint64_t bytes) const;
  /// `offset` and `bytes`: whole lines.
  void publish_bulk(std::uint64_t offset, const void* from, std::uint64_t bytes,
                    Site site = Site::here()) const {
    confirm();
    memory_.publish_bulk(at(offset), from, bytes, site);
    published();
  }
  void store_fence(Site site = Site::here()) const { memory_.store_fence(site); }

  void observe_line(std::uint64_t offset, void* line, Site site = Site::here()) const {
    memory_.observe_line(line, at(offset), site);
  }
  void invalidate(std::uint64_t offset, std::uint64_t bytes, Site site = Site::here()) const {
    memory_.invalidate(at(offset), bytes, site);
  }
  void load_fence(Site site = Site::here()) const { memory_.load_fence(site); }
  void load_line(std::uint64_t offset, void* line) const { memory_.load_line(line, at(offset)); }

 private:
  void confirm() const {
    if (pool_ != nullptr) pool_->confirm();
  }
  static void published() {
    if (after_publish_hook()) after_publish_hook()();
  }

  coherence::Memory memory_;
  std::byte* base_;
  const pool::Pool* pool_ = nullptr;
};

}  // namespace penstock::arena
