// The version of an object that transactions change, and the process that changes it; they lie in a
// small object beside it. Odd version: the object is being changed, and its bytes are neither old
// nor new.
#pragma once

#include <optional>
#include <string_view>

#include "persist/line_pair.hpp"

namespace penstock::persist {

class ObjectVersion {
 public:
  struct State {
    std::uint64_t step = 0;
    std::uint64_t version = 0;
    std::uint64_t owner = 0;   ///< token of the process that may write; 0: none
    std::uint64_t writer = 0;  ///< its line in the table of writers

    bool changing() const { return (version & 1) != 0; }
  };

  /// Returns nullopt if no transaction has ever changed the object.
  static Result<std::optional<ObjectVersion>> find(arena::Arena& arena,
                                                   const arena::Object& object);
  /// Errors: invalid_argument (an object that dies with its process), those of Arena::create.
  static Result<ObjectVersion> find_or_make(arena::Arena& arena, const arena::Object& object);
  /// Size of the pool object that holds a version.
  static constexpr std::uint64_t object_bytes = 2 * coherence::line_bytes;
  /// Returns the generation of the object that a version of this name belongs to; nullopt if it is
  /// not the name of a version.
  static std::optional<std::uint64_t> generation_in(std::string_view name);
  /// Returns the small object; nullopt once it was destroyed with its object, because its lines may
  /// then belong to others.
  std::optional<arena::Object> held_in(const arena::Arena& arena) const;
  /// Reads the current state. One serialized device access.
  State read() const;
  /// Called by the owner, or under the pool's lock if there is none. The caller orders it.
  State publish(const State& now, std::uint64_t version, std::uint64_t owner,
                std::uint64_t writer) const;

 private:
  ObjectVersion(const Device& device, const arena::Object& made, std::uint64_t pool_id)
      : lines_(device, made.offset, line_bytes, key_of(pool_id, made.generation, Kind::version)),
        slot_(made.slot),
        generation_(made.generation) {}
  static Result<ObjectVersion> from(arena::Arena& arena, const arena::Object& made);

  LinePair lines_;
  std::uint32_t slot_;  ///< slot of the small object in the name table
  std::uint64_t generation_;
};

}  // namespace penstock::persist
