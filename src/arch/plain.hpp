// What plain stores and loads do alike on every instruction set. Templates over nothing: static
// inline, so that each file compiles its own copy with its own target attributes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace penstock::arch::plain {

inline constexpr std::size_t line = 64;
inline constexpr std::size_t sealed = 56;  // payload of a sealed line

/// Lines that `bytes` of payload take; none for none.
static inline std::size_t sealed_lines(std::size_t bytes) {
  return (bytes + sealed - 1) / sealed;
}

static inline std::uint64_t* last_word(void* at) {
  return reinterpret_cast<std::uint64_t*>(static_cast<std::byte*>(at) + sealed);
}

static inline const std::uint64_t* last_word(const void* at) {
  return reinterpret_cast<const std::uint64_t*>(static_cast<const std::byte*>(at) + sealed);
}

static inline void store_line(void* to, const void* from) {
  std::uint64_t word;
  std::memcpy(&word, static_cast<const std::byte*>(from) + sealed, sizeof word);
  std::memcpy(to, from, sealed);
  __atomic_store_n(last_word(to), word, __ATOMIC_RELEASE);
}

static inline void load_line(void* to, const void* from) {
  const std::uint64_t word = __atomic_load_n(last_word(from), __ATOMIC_ACQUIRE);
  std::memcpy(to, from, sealed);
  std::memcpy(static_cast<std::byte*>(to) + sealed, &word, sizeof word);
}

static inline void store_copy(void* to, const void* from, std::size_t bytes) {
  if (bytes != 0) std::memcpy(to, from, bytes);  // no bytes may come with a null address
}

static inline void store_sealed(void* to, const void* from, std::size_t bytes, std::uint64_t seal) {
  if (bytes == 0) return;
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  for (; bytes > sealed; bytes -= sealed, in += sealed, out += line, ++seal) {
    std::memcpy(out, in, sealed);
    __atomic_store_n(last_word(out), seal, __ATOMIC_RELEASE);
  }
  std::memcpy(out, in, bytes);
  __atomic_store_n(last_word(out), seal, __ATOMIC_RELEASE);
}

static inline std::size_t load_sealed(void* to, const void* from, std::size_t bytes,
                                      std::uint64_t seal) {
  if (bytes == 0) return 0;
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  std::size_t left = bytes;
  for (; left > sealed; left -= sealed, in += line, out += sealed, ++seal) {
    if (__atomic_load_n(last_word(in), __ATOMIC_ACQUIRE) != seal) return bytes - left;
    std::memcpy(out, in, sealed);
  }
  if (__atomic_load_n(last_word(in), __ATOMIC_ACQUIRE) != seal) return bytes - left;
  std::memcpy(out, in, left);
  return bytes;
}

}  // namespace penstock::arch::plain
