// A pool in a file without a name, so that nothing is left behind however a target ends.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pool/layout.hpp"

namespace penstock::fuzz {

struct PoolShape {
  coherence::Mode mode = coherence::Mode::software;
  std::uint64_t bytes = device::min_pool_bytes;
  std::uint32_t max_processes = 8;
  std::uint32_t max_nodes = 3;
};

class PoolInMemory {
 public:
  explicit PoolInMemory(const PoolShape& shape);
  ~PoolInMemory();
  PoolInMemory(const PoolInMemory&) = delete;
  PoolInMemory& operator=(const PoolInMemory&) = delete;

  const std::string& spec() const { return spec_; }
  const device::Superblock& superblock() const { return superblock_; }
  /// The pool as other hosts see it: stores made here count as theirs.
  std::byte* base() const { return base_; }
  int fd() const { return fd_; }
  std::uint32_t pool_file() const { return pool_file_; }  ///< as its attachments report it

  /// Saves superblock and tables for restore().
  void keep();
  void restore() const;

 private:
  int fd_;
  std::string spec_;
  device::Superblock superblock_;
  std::uint32_t pool_file_ = 0;
  std::byte* base_;
  std::vector<std::byte> kept_;
};

/// An attached process whose whole view of the pool can be reset; that costs only the touched
/// pages. The pages before and behind the pool are inaccessible.
class FrozenPool {
 public:
  explicit FrozenPool(const PoolShape& shape);
  ~FrozenPool();

  pool::Pool& pool() const { return *pool_; }
  const PoolInMemory& file() const { return file_; }
  const std::string& spec() const { return file_.spec(); }
  std::byte* base() const { return pool_->base(); }
  std::uint64_t bytes() const { return pool_->bytes(); }
  /// From now on no store reaches the file.
  void freeze();
  void reset() const;

 private:
  PoolInMemory file_;
  std::unique_ptr<pool::Pool> pool_;
};

}  // namespace penstock::fuzz
