// Bucket counts of the name table.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "arena/layout.hpp"

namespace penstock::arena {

using LevelSizes = std::array<std::uint64_t, table_levels>;

bool is_prime(std::uint64_t number);
/// Returns the ten largest primes that are not above `capacity`, in falling order; nullopt if there
/// are fewer than ten.
std::optional<LevelSizes> level_sizes(std::uint64_t capacity);

}  // namespace penstock::arena
