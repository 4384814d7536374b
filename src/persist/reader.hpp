// Reads committed bytes while other nodes change them.
#pragma once

#include <optional>

#include "arena/arena.hpp"
#include "persist/device.hpp"
#include "persist/object_version.hpp"

namespace penstock::persist {

/// Reads one object. Used by one thread at a time; takes no lock unless a writer has died.
class Reader {
 public:
  /// Errors: unavailable (Device::of).
  static Result<Reader> open(arena::Arena& arena, const arena::Object& object);

  /// Copies [offset, offset + bytes) as one transaction left it, before the next one touched it.
  /// Returns the version, which grows with each transaction and is 0 before the first. Waits while
  /// the object is being changed; undoes the unfinished transaction of a dead writer. Three
  /// serialized device accesses. Errors: invalid_argument; deadline; unavailable if a host must
  /// flush its caches first.
  Result<std::uint64_t> read(void* to, std::uint64_t offset, std::uint64_t bytes,
                             std::uint64_t timeout_ns = 0);

 private:
  Reader(arena::Arena& arena, const Device& device, arena::Object object)
      : arena_(&arena), device_(device), object_(std::move(object)) {}
  Result<std::optional<ObjectVersion::State>> look();
  Result<void> end_writer();

  arena::Arena* arena_;
  Device device_;
  arena::Object object_;
  std::optional<ObjectVersion> version_;
};

}  // namespace penstock::persist
