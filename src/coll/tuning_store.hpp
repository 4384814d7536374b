// The sources of a tuning table: an object with a reserved name in the pool, or the environment.
// Explained in docs/protocols/collectives.md, "How a plan is chosen".
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "arena/arena.hpp"
#include "coll/tuning.hpp"

namespace penstock::coll {

inline constexpr std::string_view tuning_name = "penstock.coll.tuning";

/// Replaces the pool's table. A concurrent reader sees the old table, none, or the whole new one,
/// and so does every reader if this process is killed midway. Errors: invalid_argument, those of
/// check(); those of Arena::create, after which the pool has no table.
Result<void> store_tuning(arena::Arena& arena, const Tuning& tuning);
/// Removes the table. False: there was none. Errors: those of Arena::destroy.
Result<bool> remove_tuning(arena::Arena& arena);
/// Reads the table. Nullopt: there is none. Errors: wrong_format, if it is damaged; the message
/// names the fix. Takes no lock; an observer may call it.
Result<std::optional<Tuning>> load_tuning(arena::Arena& arena);

/// The table that PENSTOCK_COLL_TUNING names, else the pool's; null: the built-in one. Warns once
/// about each table that cannot be used, and ignores it.
std::shared_ptr<const Tuning> tuning_in_force(arena::Arena& arena);

}  // namespace penstock::coll
