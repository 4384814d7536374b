#include "coll/zero_copy.hpp"

#include <cstddef>

#include "base/checksum.hpp"

namespace penstock::coll {

namespace {

std::uint64_t checksum_of(const PartPlace& place) {
  return base::xxh64(&place, offsetof(PartPlace, checksum), place.word);
}

}  // namespace

std::optional<std::uint64_t> lines_in_pool(const pool::Pool& pool, const void* at,
                                           std::uint64_t bytes) {
  const auto offset = pool.offset_of(at);
  if (!offset || (*offset | bytes) % line_bytes != 0) return std::nullopt;
  if (!base::range_inside(*offset, bytes, pool.bytes())) return std::nullopt;
  return offset;
}

PartPlace place_of(std::uint64_t word, std::uint64_t offset, std::uint64_t bytes) {
  PartPlace place{.word = word, .offset = offset, .bytes = bytes};
  place.checksum = checksum_of(place);
  return place;
}

const std::byte* part_at(const pool::Pool& pool, const PartPlace& place, std::uint64_t word,
                         std::uint64_t bytes) {
  const bool whole = place.word == word && place.checksum == checksum_of(place);
  if (!whole || place.bytes < bytes || place.offset % line_bytes != 0) return nullptr;
  return static_cast<const std::byte*>(pool.at(place.offset, place.bytes));
}

}  // namespace penstock::coll
