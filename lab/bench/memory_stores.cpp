#include "bench/memory_stores.hpp"

#include <cstdint>
#include <cstring>

#include "arch/arch.hpp"

namespace penstock::bench {
namespace {

using Vector16 = std::uint64_t __attribute__((vector_size(16)));
using Vector32 = std::uint64_t __attribute__((vector_size(32)));
using Vector64 = std::uint64_t __attribute__((vector_size(64)));

std::uint64_t repeated(int value) {
  return 0x0101010101010101u * static_cast<unsigned char>(value);
}

/// volatile: the compiler must neither merge stores nor turn the loop into a memset.
void fill_1(std::byte* to, std::size_t bytes, int value) {
  volatile auto* at = reinterpret_cast<volatile unsigned char*>(to);
  for (std::size_t i = 0; i < bytes; ++i) at[i] = static_cast<unsigned char>(value);
}

void fill_8(std::byte* to, std::size_t bytes, int value) {
  volatile auto* at = reinterpret_cast<volatile std::uint64_t*>(to);
  for (std::size_t i = 0; i < bytes / 8; ++i) at[i] = repeated(value);
}

[[maybe_unused]] void fill_16(std::byte* to, std::size_t bytes, int value) {
  const Vector16 vector = Vector16{} + repeated(value);
  volatile auto* at = reinterpret_cast<volatile Vector16*>(to);
  for (std::size_t i = 0; i < bytes / 16; ++i) at[i] = vector;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) void fill_32(std::byte* to, std::size_t bytes, int value) {
  const Vector32 vector = Vector32{} + repeated(value);
  volatile auto* at = reinterpret_cast<volatile Vector32*>(to);
  for (std::size_t i = 0; i < bytes / 32; ++i) at[i] = vector;
}

__attribute__((target("avx512f"))) void fill_64(std::byte* to, std::size_t bytes, int value) {
  const Vector64 vector = Vector64{} + repeated(value);
  volatile auto* at = reinterpret_cast<volatile Vector64*>(to);
  for (std::size_t i = 0; i < bytes / 64; ++i) at[i] = vector;
}
#endif

void fill_libc(std::byte* to, std::size_t bytes, int value) {
  std::memset(to, value, bytes);
  asm volatile("" : : "r"(to) : "memory");  // keeps the compiler from removing the loop
}

std::vector<Store> made() {
  std::vector<Store> all = {{"bytes", fill_1}, {"8 B stores", fill_8}};
#if defined(__x86_64__)
  all.push_back({"16 B stores", fill_16});
  if (arch::features().avx2) all.push_back({"32 B stores", fill_32});
  if (arch::features().avx512) all.push_back({"64 B stores", fill_64});
#endif
  all.push_back({"libc memset", fill_libc});
  return all;
}

}  // namespace

const std::vector<Store>& stores() {
  static const std::vector<Store> all = made();
  return all;
}

std::uint64_t sum_of(const std::byte* from, std::size_t bytes) {
  std::uint64_t sums[8] = {};
  for (std::size_t i = 0; i + 64 <= bytes; i += 64) {
    std::uint64_t words[8];
    std::memcpy(words, from + i, sizeof words);
    for (int k = 0; k < 8; ++k) sums[k] += words[k];
  }
  std::uint64_t sum = 0;
  for (const std::uint64_t each : sums) sum += each;
  return sum;
}

}  // namespace penstock::bench
