// What the dead left half done is undone, by whoever comes across it.
#pragma once

#include <string>
#include <vector>

#include "persist/object_version.hpp"
#include "persist/writers.hpp"

namespace penstock::persist {

struct Recovered {
  std::uint32_t logs = 0;  ///< of dead processes: what they had under way is undone
  /// Transactions that wait until the node of the dead has flushed its caches: its lines could
  /// overwrite what is restored.
  struct Waiting {
    std::uint32_t node = 0;
    std::string owner;  ///< described
  };
  std::vector<Waiting> waiting;
  std::vector<std::string> discarded;  ///< names of damaged logs, see DamagedLogs::discard
};

/// A damaged log of a dead process cannot be undone: keep it, or destroy it.
enum class DamagedLogs : std::uint8_t {
  keep,     ///< an error; its objects stay closed to other writers
  discard,  ///< destroy it; its objects stay as the process left them
};

/// Undoes the transactions of dead processes, as far as it can be done now. Idempotent; several may
/// call it at once. Two device accesses where no process of the pool has an undo log. Errors:
/// deadline (the pool's lock), wrong_format (a log is damaged, named), unavailable.
Result<Recovered> recover(arena::Arena& arena);

/// The same; and destroys the versions of objects that are gone, whose destroyer was killed before
/// it came to them. Goes through all names.
Result<Recovered> collect(arena::Arena& arena, DamagedLogs damaged = DamagedLogs::keep);

/// Under the pool's lock. Undoes what the process of `writer` had under way if it is dead. False
/// when its node has to flush first.
Result<bool> roll_back(arena::Arena& arena, const WriterLine& writer);

/// Under the pool's lock. Undoes what the object's last writer had under way if it is dead. False
/// when its node has to flush first. Errors: unavailable, where it lives.
Result<bool> end_dead_writer(arena::Arena& arena, const Writers& writers,
                             const arena::Object& object, const ObjectVersion::State& state);
/// The object and its version. What a dead process was changing of it is gone with it. Errors:
/// those of Arena::destroy; unavailable, while a transaction changes it or a log of another living
/// process has it.
Result<void> destroy(arena::Arena& arena, const arena::Object& object);
/// As Arena::set_lifetime. Errors: also invalid_argument, where an object that transactions have
/// changed is to end with this process: what its writer has under way could not be undone.
Result<void> set_lifetime(arena::Arena& arena, const arena::Object& object,
                          arena::Lifetime lifetime);
/// Nodes that live flush at their heartbeats: how long to wait for that.
inline constexpr std::uint64_t flush_wait_ns = 5'000'000'000;
/// What one has waited for in vain.
Error not_flushed(const arena::Arena& arena, const arena::Object& object,
                  const ObjectVersion::State& state);

}  // namespace penstock::persist
