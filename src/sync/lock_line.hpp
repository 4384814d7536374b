// A participant's line of a lock in the pool.
#pragma once

#include <cstdint>

#include "coherence/coherence.hpp"

namespace penstock::sync {

struct alignas(64) LockLine {
  std::uint64_t token = 0;
  std::uint64_t number = 0;
  std::uint64_t choosing = 0;
  std::uint64_t shared = 0;
  std::uint64_t unused[3] = {};
  std::uint64_t checksum = 0;
};
static_assert(sizeof(LockLine) == coherence::line_bytes);

/// Returns 0 for a zeroed line, so that zeroed memory is a valid, free lock.
inline std::uint64_t lock_checksum(const LockLine& line) {
  std::uint64_t mix = line.token * 0x9e3779b97f4a7c15u;
  mix = (mix ^ (mix >> 29)) + line.number * 0xbf58476d1ce4e5b9u;
  mix = (mix ^ (mix >> 32)) + (line.choosing + 2 * line.shared) * 0x94d049bb133111ebu;
  return mix ^ (mix >> 31);
}

}  // namespace penstock::sync
