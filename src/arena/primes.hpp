// Bucket counts of the name table.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "arena/layout.hpp"

namespace penstock::arena {

using LevelSizes = std::array<std::uint64_t, table_levels>;

bool is_prime(std::uint64_t number);
/// The ten largest primes that are not above `capacity`, falling. Nullopt when there are no ten.
std::optional<LevelSizes> level_sizes(std::uint64_t capacity);

}  // namespace penstock::arena
