// Plain stores and loads, common to all instruction sets. The functions are static inline, so that
// each file compiles its own copy with its own target attributes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace penstock::arch::plain {

inline constexpr std::size_t line = 64;
inline constexpr std::size_t tagged = 56;  // payload of a tagged line

/// The number of lines that `bytes` of payload take; 0 for 0.
static inline std::size_t tagged_lines(std::size_t bytes) {
  return (bytes + tagged - 1) / tagged;
}

static inline std::uint64_t* last_word(void* at) {
  return reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(at) + tagged);
}

static inline const std::uint64_t* last_word(const void* at) {
  return reinterpret_cast<const std::uint64_t*>(static_cast<const std::byte*>(at) + tagged);
}

static inline void store_line(void* to, const void* from) {
  std::uint64_t word;
  std::memcpy(&word, static_cast<const std::byte*>(from) + tagged, sizeof word);
  std::memcpy(to, from, tagged);
  __atomic_store_n(last_word(to), word, __ATOMIC_RELEASE);
}

static inline void load_line(void* to, const void* from) {
  const std::uint64_t word = __atomic_load_n(last_word(from), __ATOMIC_ACQUIRE);
  std::memcpy(to, from, tagged);
  std::memcpy(static_cast<std::byte*>(to) + tagged, &word, sizeof word);
}

static inline void store_copy(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);  // the address may be null for 0 bytes
}

static inline void store_tagged(void* to, const void* from, std::size_t bytes,
                                std::uint64_t line_tag) {
  if (bytes == 0) return;
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  for (; bytes > tagged; bytes -= tagged, in += tagged, out += line, ++line_tag) {
    std::memcpy(out, in, tagged);
    __atomic_store_n(last_word(out), line_tag, __ATOMIC_RELEASE);
  }
  std::memcpy(out, in, bytes);
  __atomic_store_n(last_word(out), line_tag, __ATOMIC_RELEASE);
}

static inline std::size_t load_tagged(void* to, const void* from, std::size_t bytes,
                                      std::uint64_t line_tag) {
  if (bytes == 0) return 0;
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  std::size_t left = bytes;
  for (; left > tagged; left -= tagged, in += line, out += tagged, ++line_tag) {
    if (__atomic_load_n(last_word(in), __ATOMIC_ACQUIRE) != line_tag) return bytes - left;
    std::memcpy(out, in, tagged);
  }
  if (__atomic_load_n(last_word(in), __ATOMIC_ACQUIRE) != line_tag) return bytes - left;
  std::memcpy(out, in, left);
  return bytes;
}

}  // namespace penstock::arch::plain
