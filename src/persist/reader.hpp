// Reading what was committed, while others change it on other nodes.
#pragma once

#include <optional>

#include "arena/arena.hpp"
#include "persist/device.hpp"
#include "persist/object_version.hpp"

namespace penstock::persist {

/// Of one object. Used by one thread at a time; takes no lock unless a writer has died.
class Reader {
 public:
  /// Errors: unavailable (Device::of).
  static Result<Reader> open(arena::Arena& arena, const arena::Object& object);

  /// Copies [offset, offset + bytes) as one transaction left it and the next one has not touched
  /// it; returns the version, which grows with each transaction and is 0 before the first. Waits
  /// while the object is being changed; what a dead writer left half done is undone. Three
  /// serialized device accesses. Errors: invalid_argument; deadline; unavailable, where a host must
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
