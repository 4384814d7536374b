// Large arrays that are saved as a whole: two copies, and a line that says which copy is valid.
// Writes the data once, where an undo log writes it twice. Drawing and costs:
// docs/protocols/persistence.md.
#pragma once

#include <optional>
#include <string_view>

#include "arena/arena.hpp"
#include "persist/line_pair.hpp"

namespace penstock::persist {

/// An object with two copies of `bytes`. Several processes may write parts of the next version; one
/// of them commits it after all have flushed. One thread at a time uses a handle.
class Checkpoint {
 public:
  struct Valid {
    std::uint64_t version = 0;  ///< 0: no version was committed yet
    std::uint64_t tag = 0;      ///< as given to commit()
  };

  /// Makes a checkpoint, or opens one of the same size. Errors: those of Arena::create;
  /// wrong_format if an object of that name and size is not a checkpoint.
  static Result<Checkpoint> create(arena::Arena& arena, std::string_view name, std::uint64_t bytes,
                                   arena::Lifetime lifetime = arena::Lifetime::persistent);
  /// Opens a checkpoint. Errors: not_found, also while it is being made; wrong_format if the object
  /// is not a checkpoint.
  static Result<Checkpoint> open(arena::Arena& arena, std::string_view name);

  /// Bytes of one copy: whole pages.
  std::uint64_t bytes() const { return copy_bytes_; }
  const arena::Object& object() const { return object_; }

  /// Describes the valid version. One serialized device access. Errors: wrong_format.
  Result<Valid> valid() const;
  /// Begins the version after the valid one; returns its number. Forgets what this handle wrote of
  /// an earlier version that was not committed.
  Result<std::uint64_t> begin();
  /// Writes into the copy that is not valid, past the caches. Processes that write at the same time
  /// write different words of 8 bytes. One serialized device access; the data travels once. Errors:
  /// invalid_argument; mismatch if another version was committed since begin().
  Result<void> write(std::uint64_t offset, const void* from, std::uint64_t bytes);
  /// On return all that this handle wrote is at the device, or in the file. Tell the committing
  /// process after that.
  Result<void> flush();
  /// Makes the version that was begun valid and durable. Called by one process, after all that have
  /// written have flushed. Takes the pool's lock. Errors: mismatch, as for write().
  Result<void> commit(std::uint64_t tag);
  /// Copies out of a version. Errors: invalid_argument; unavailable if `version` is no longer the
  /// valid one, so that the copy may hold bytes of a later one: call valid() again.
  Result<void> read(std::uint64_t version, void* to, std::uint64_t offset,
                    std::uint64_t bytes) const;

 private:
  Checkpoint(arena::Arena& arena, const Device& device, arena::Object object);
  bool is_fresh() const;
  Result<PairLine> line() const;
  Result<PairLine> line_before_begun() const;
  Result<void> check_range(std::uint64_t offset, std::uint64_t bytes) const;
  std::uint64_t copy(std::uint64_t version) const {
    return object_.offset + pair_bytes + (version & 1) * copy_bytes_;
  }
  void write_words(std::uint64_t to, const std::byte* from, std::uint64_t bytes) const;

  arena::Arena* arena_;
  Device device_;
  arena::Object object_;
  LinePair lines_;
  std::uint64_t copy_bytes_;
  std::uint64_t begun_ = 0;                   ///< 0: none
  std::uint64_t written_first_ = UINT64_MAX;  ///< first offset in the pool that was written and not
                                              ///< flushed
  std::uint64_t written_end_ = 0;
};

}  // namespace penstock::persist
