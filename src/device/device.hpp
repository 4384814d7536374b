// The parts of a SPEC as this process has mapped them: one range of addresses, accessed by the
// operations of the pool's mode. This module knows neither tables nor processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/checked.hpp"
#include "base/fork.hpp"
#include "coherence/coherence.hpp"
#include "device/durability.hpp"
#include "device/growth.hpp"
#include "device/mapping.hpp"
#include "device/owner.hpp"
#include "device/superblock.hpp"

namespace penstock::device {

struct OpenOptions {
  std::string spec;
  std::optional<coherence::Mode> mode;  ///< if given, must match the pool's
  coherence::FlushChoice flush = coherence::FlushChoice::automatic;
  std::uint32_t node = 0;  ///< of this host: 0, or 1 + the number of an emulated node
  bool read_only = false;  ///< for an observer; the owner of the pool is not checked
};

/// Thread-safe. The destructor unmaps.
class Device {
 public:
  /// Opens, checks and maps the parts. Errors: not_found, wrong_format, mismatch, permission,
  /// no_space, unavailable; each message ends with the fixing command.
  static Result<Device> open(const OpenOptions& options, LayOut lay_out);

  /// False in a child forked by the process that has opened it. No system call.
  bool opened_here() const { return origin_.here(); }
  const std::string& spec() const { return spec_; }
  const Superblock& superblock() const { return superblock_; }
  const Owner& owner() const { return owner_; }       ///< of the first part
  std::uint32_t file() const { return file_; }        ///< pool_file_of() its parts
  int lock_file() const { return lock_file_.get(); }  ///< opened for locks alone

  const coherence::Memory& memory() const { return view_.memory; }
  std::byte* base() const { return view_.base; }
  std::uint64_t bytes() const { return mapping_.bytes(); }
  /// Address of [offset, offset+bytes) after a bounds check; null if it is not inside the pool.
  void* at(std::uint64_t offset, std::uint64_t bytes) const {
    if (!base::range_inside(offset, bytes, mapping_.bytes())) return nullptr;
    return view_.base + offset;
  }
  /// Offset of an address inside the mapping; nullopt outside.
  std::optional<std::uint64_t> offset_of(const void* address) const {
    const auto begin = reinterpret_cast<std::uintptr_t>(view_.base);
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (at < begin || at - begin >= mapping_.bytes()) return std::nullopt;
    return at - begin;
  }

  bool grows() const { return growth_.grows(); }  ///< made without reserving all its space
  /// Requires the pool's lock. Reserves space for [offset, offset + bytes) before its first use,
  /// all of it or nothing, if the pool is sparse (CreateOptions::sparse). A no-op for other pools.
  /// Makes system calls. Errors: no_space.
  Result<void> reserve(std::uint64_t offset, std::uint64_t bytes) const;
  /// Requires the pool's lock. Returns the whole blocks of an unused range to the file system; they
  /// read as zeros afterwards. Returns the number of bytes; 0 in pools that are not sparse.
  std::uint64_t give_back(std::uint64_t offset, std::uint64_t bytes) const;

  Durability durability() const { return durability_; }
  /// Writes published stores of this host to [offset, offset + bytes) to the file, if durability()
  /// is `file`; a no-op otherwise. A system call that waits for the storage. Errors: unavailable
  /// (the file system cannot write).
  Result<void> sync(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  Device() = default;

  std::string spec_;
  Superblock superblock_;
  Owner owner_;
  std::uint32_t file_ = 0;
  Durability durability_ = Durability::none;
  base::Origin origin_;
  Growth growth_;
  base::ProcessFd lock_file_;
  Mapping mapping_;
  coherence::View view_;  // ends before the mapping
};

}  // namespace penstock::device
