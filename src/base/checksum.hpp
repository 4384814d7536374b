// The one checksum: XXH64 (https://xxhash.com, specified there). It finds torn lines, lines of
// another place and damage; it does not defend against malice, so every field is checked when used.
#pragma once

#include <cstddef>
#include <cstdint>

namespace penstock::base {

/// XXH64 of `count` bytes. `seed` distinguishes equal contents of different places or pools.
std::uint64_t xxh64(const void* bytes, std::size_t count, std::uint64_t seed);

}  // namespace penstock::base
