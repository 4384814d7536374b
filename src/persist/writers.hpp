// The table of writers: one line for each undo log of the pool, in an object of its own.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "persist/device.hpp"
#include "persist/layout.hpp"

namespace penstock::persist {

/// Changed under the pool's lock, read without it.
class Writers {
 public:
  /// Returns nullopt if the pool has never had a transaction. Errors: wrong_format.
  static Result<std::optional<Writers>> find(arena::Arena& arena);
  static Result<Writers> find_or_make(arena::Arena& arena);

  std::uint32_t count() const { return count_; }
  /// Reads all lines. One serialized device access. `owner` 0: the line is free.
  std::vector<WriterLine> all() const;
  WriterLine read(std::uint32_t number) const;
  /// Under the lock. Published and ordered on return.
  void put(std::uint32_t number, WriterLine line) const;
  /// Under the lock.
  void erase(std::uint32_t number) const;
  /// False if the table was destroyed, so that its lines may belong to other objects.
  bool stands_in(const arena::Arena& arena) const { return arena.stands(object_); }

 private:
  Writers(const Device& device, const arena::Object& object, std::uint64_t pool_id)
      : device_(device),
        object_(object),
        offset_(object.offset),
        count_(static_cast<std::uint32_t>(object.bytes / line_bytes)),
        key_(key_of(pool_id, object.generation, Kind::writer)) {}
  static Result<Writers> from(arena::Arena& arena, const arena::Object& object);
  WriterLine load(std::uint32_t number) const;
  std::uint64_t place(std::uint32_t number) const { return offset_ + number * line_bytes; }

  Device device_;
  arena::Object object_;
  std::uint64_t offset_;
  std::uint32_t count_;
  std::uint64_t key_;
};

/// The lifetime of the objects that this module keeps beside those of users.
arena::Lifetime lifetime_in(const pool::Pool& pool);
std::string log_name(const WriterLine& writer);

}  // namespace penstock::persist
