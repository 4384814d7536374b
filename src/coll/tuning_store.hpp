// Where a tuning table comes from: the pool, where it is an object of a reserved name, or the
// environment. In words: docs/protocols/collectives.md, "How a plan is chosen".
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "arena/arena.hpp"
#include "coll/tuning.hpp"

namespace penstock::coll {

inline constexpr std::string_view tuning_name = "penstock.coll.tuning";

/// Replaces the pool's table; whoever reads it at that moment finds the old one, none, or the new
/// one whole. Killed in the middle it leaves one of these. Errors: invalid_argument, those of
/// check(); those of Arena::create, after which there is none.
Result<void> store_tuning(arena::Arena& arena, const Tuning& tuning);
/// False: there was none. Errors: those of Arena::destroy.
Result<bool> remove_tuning(arena::Arena& arena);
/// Nullopt: there is none. Errors: wrong_format, where it is damaged; the message says what mends
/// it. Takes no lock; an observer may call it.
Result<std::optional<Tuning>> load_tuning(arena::Arena& arena);

/// What PENSTOCK_COLL_TUNING names, else the pool's; null: the built-in one. What cannot be used is
/// told in a warning, each once, and not used.
std::shared_ptr<const Tuning> tuning_in_force(arena::Arena& arena);

}  // namespace penstock::coll
