// A chunk that stays in the producer's buffer, which must lie in the pool. For each part, its slot
// holds a line that says where the part lies:
//
//   | word of its doorbell | offset in the pool | bytes | 0 ... | checksum |
//
// Protocol: docs/protocols/collectives.md, "Zero copy".
#pragma once

#include <cstdint>
#include <optional>

#include "coll/layout.hpp"
#include "pool/pool.hpp"

namespace penstock::coll {

struct PartPlace {
  std::uint64_t word = 0, offset = 0, bytes = 0;
  std::uint64_t zero[4] = {};
  std::uint64_t checksum = 0;
};
static_assert(sizeof(PartPlace) == line_bytes);

/// Offset of `at` if the bytes are whole lines of the pool; nullopt: they are not.
std::optional<std::uint64_t> lines_in_pool(const pool::Pool& pool, const void* at,
                                           std::uint64_t bytes);

PartPlace place_of(std::uint64_t word, std::uint64_t offset, std::uint64_t bytes);
/// Address of `bytes` bytes of the part; null: the line does not match `word`, or names memory
/// outside the pool or fewer bytes.
const std::byte* part_at(const pool::Pool& pool, const PartPlace& place, std::uint64_t word,
                         std::uint64_t bytes);

}  // namespace penstock::coll
