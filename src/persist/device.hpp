// The pool's bytes as this module accesses them. Publishes reach the device, also in hardware mode,
// where the other modules leave lines in caches that lose them with the power.
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "coherence/coherence.hpp"
#include "pool/pool.hpp"

namespace penstock::persist {

using coherence::Site;

/// Cheap to copy. The caller has checked every offset. A process that was stopped and that others
/// have declared dead meanwhile stores nothing.
class Device {
 public:
  /// Errors: unavailable if the pool should be durable and this CPU cannot write lines back.
  static Result<Device> of(const pool::Pool& pool);

  std::byte* at(std::uint64_t offset) const { return pool_->base() + offset; }
  bool keeps() const { return pool_->device().durability() != device::Durability::none; }

  /// Ends the process if others have declared it dead (pool::Pool::confirm).
  void confirm() const { pool_->confirm(); }
  /// The line is at no instant dirty in a cache.
  void publish_line(std::uint64_t offset, const void* line, Site site = Site::here()) const {
    pool_->confirm();
    memory_.publish_line(at(offset), line, site);
  }
  void publish_word(std::uint64_t offset, std::uint64_t value, Site site = Site::here()) const {
    pool_->confirm();
    memory_.publish_word(at(offset), value, site);
  }
  /// `bytes` lie within one aligned word.
  void publish_bytes(std::uint64_t offset, const void* from, std::uint64_t bytes,
                     Site site = Site::here()) const {
    pool_->confirm();
    memory_.publish_bytes(at(offset), from, bytes, site);
  }
  /// `offset` and `bytes`: whole lines.
  void publish_bulk(std::uint64_t offset, const void* from, std::uint64_t bytes,
                    Site site = Site::here()) const {
    pool_->confirm();
    memory_.publish_bulk(at(offset), from, bytes, site);
  }
  void write_back(std::uint64_t offset, std::uint64_t bytes, Site site = Site::here()) const {
    pool_->confirm();
    memory_.write_back(at(offset), bytes, site);
  }
  void store_fence(Site site = Site::here()) const { memory_.store_fence(site); }
  /// On return all publishes are at the device.
  void full_fence(Site site = Site::here()) const { memory_.full_fence(site); }
  /// Writes what is at the device into the file, if the pool is mapped by the page cache.
  Result<void> sync(std::uint64_t offset, std::uint64_t bytes) const {
    return pool_->device().sync(offset, bytes);
  }

  void invalidate(std::uint64_t offset, std::uint64_t bytes, Site site = Site::here()) const {
    memory_.invalidate(at(offset), bytes, site);
  }
  void load_fence(Site site = Site::here()) const { memory_.load_fence(site); }
  void load_line(std::uint64_t offset, void* line) const { memory_.load_line(line, at(offset)); }
  void load_bulk(std::uint64_t offset, void* to, std::uint64_t bytes) const {
    memory_.load_bulk(to, at(offset), bytes);
  }

 private:
  Device(const pool::Pool& pool, const coherence::Memory& memory) : pool_(&pool), memory_(memory) {}

  const pool::Pool* pool_;
  coherence::Memory memory_;
};

}  // namespace penstock::persist
