// Undoes the unfinished transactions of dead processes. Any process that meets them can do so.
#pragma once

#include <string>
#include <vector>

#include "persist/object_version.hpp"
#include "persist/writers.hpp"

namespace penstock::persist {

struct Recovered {
  std::uint32_t logs = 0;  ///< logs of dead processes whose transactions were undone
  /// Transactions that wait until the dead process's node has flushed its caches, whose lines could
  /// overwrite the restored bytes.
  struct Waiting {
    std::uint32_t node = 0;
    std::string owner;  ///< its description
  };
  std::vector<Waiting> waiting;
  std::vector<std::string> discarded;  ///< names of damaged logs, see DamagedLogs::discard
};

/// A damaged log of a dead process cannot be undone: keep it, or destroy it.
enum class DamagedLogs : std::uint8_t {
  keep,     ///< an error; its objects stay closed to other writers
  discard,  ///< destroy it; its objects stay as the process left them
};

/// Undoes the transactions of dead processes, as far as possible now. Idempotent; several processes
/// may call it at once. Two device accesses if no process of the pool has an undo log. Errors:
/// deadline (the pool's lock), wrong_format (a log is damaged; names it), unavailable.
Result<Recovered> recover(arena::Arena& arena);

/// The same, and destroys versions whose objects were destroyed by a process that was killed before
/// it reached the version. Walks all names.
Result<Recovered> collect(arena::Arena& arena, DamagedLogs damaged = DamagedLogs::keep);

/// Under the pool's lock. Undoes the unfinished transaction of `writer`'s process if that is dead.
/// Returns false if its node must flush first.
Result<bool> roll_back(arena::Arena& arena, const WriterLine& writer);

/// Under the pool's lock. Undoes the unfinished transaction of the object's last writer if that is
/// dead. Returns false if its node must flush first. Errors: unavailable if the writer lives.
Result<bool> end_dead_writer(arena::Arena& arena, const Writers& writers,
                             const arena::Object& object, const ObjectVersion::State& state);
/// Destroys the object and its version; a dead process's unfinished changes to it are dropped.
/// Errors: those of Arena::destroy; unavailable while a transaction changes it or a log of another
/// living process holds it.
Result<void> destroy(arena::Arena& arena, const arena::Object& object);
/// As Arena::set_lifetime. Errors: also invalid_argument if transactions have changed the
/// object and it would end with this process: its writer's transaction could then not be undone.
Result<void> set_lifetime(arena::Arena& arena, const arena::Object& object,
                          arena::Lifetime lifetime);
/// How long to wait for living nodes, which flush at their heartbeats.
inline constexpr std::uint64_t flush_wait_ns = 5'000'000'000;
/// The error of a wait that ended in vain.
Error not_flushed(const arena::Arena& arena, const arena::Object& object,
                  const ObjectVersion::State& state);

}  // namespace penstock::persist
