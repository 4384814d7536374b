// The operations of sse2, with 32-byte stores.
#include <immintrin.h>

#include "arch/plain.hpp"
#include "arch/x86_64/x86_64.hpp"

#define PENSTOCK_AVX2 [[gnu::target("avx2")]]

namespace penstock::arch::x86_64::avx2 {
namespace {

/// glibc 2.36 copies larger pieces by `rep movsb`, which on Zen 3 takes 18 times as long (2 GB/s in
/// place of 36) where `to` lies 1 to 31 bytes further into its page than `from`: large blocks of
/// malloc begin 16 bytes into a page, and cells at its beginning.
constexpr std::size_t own_copy_from = 1024;

PENSTOCK_AVX2 __m256i load32(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

PENSTOCK_AVX2 void store32(std::byte* to, __m256i value) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), value);
}

PENSTOCK_AVX2 void stream_line(std::byte* to, const std::byte* from) {
  const __m256i a = load32(from), b = load32(from + 32);
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), a);
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to + 32), b);
}

PENSTOCK_AVX2 void stream_payload(std::byte* to, const std::byte* from) {
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 32));
  std::uint64_t c;
  std::memcpy(&c, from + 48, sizeof c);
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), load32(from));
  _mm_stream_si128(reinterpret_cast<__m128i*>(to + 32), b);
  _mm_stream_si64(reinterpret_cast<long long*>(to + 48), static_cast<long long>(c));
}

PENSTOCK_AVX2 void copy_payload(std::byte* to, const std::byte* from) {
  const __m256i a = load32(from);
  const __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + 32));
  std::uint64_t c;
  std::memcpy(&c, from + 48, sizeof c);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), a);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to + 32), b);
  std::memcpy(to + 48, &c, sizeof c);
}

}  // namespace

PENSTOCK_AVX2 void nt_line(void* to, const void* from) {
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  stream_payload(out, in);
  _mm_sfence();
  std::uint64_t word;
  std::memcpy(&word, in + plain::tagged, sizeof word);
  nt_word(plain::last_word(to), word);
}

PENSTOCK_AVX2 void nt_copy(void* to, const void* from, std::size_t bytes) {
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  for (; bytes >= 4 * line_bytes; bytes -= 4 * line_bytes) {
    stream_line(out, in);
    stream_line(out + 64, in + 64);
    stream_line(out + 128, in + 128);
    stream_line(out + 192, in + 192);
    in += 4 * line_bytes;
    out += 4 * line_bytes;
  }
  for (; bytes >= line_bytes; bytes -= line_bytes, in += line_bytes, out += line_bytes) {
    stream_line(out, in);
  }
  if (bytes == 0) return;
  alignas(line_bytes) std::byte tail[line_bytes] = {};
  std::memcpy(tail, in, bytes);
  stream_line(out, tail);
}

PENSTOCK_AVX2 void store_copy(void* to, const void* from, std::size_t bytes) {
  if (bytes < own_copy_from) return plain::store_copy(to, from, bytes);
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  for (; bytes >= 2 * line_bytes; bytes -= 2 * line_bytes) {
    const __m256i a = load32(in), b = load32(in + 32), c = load32(in + 64), d = load32(in + 96);
    store32(out, a);
    store32(out + 32, b);
    store32(out + 64, c);
    store32(out + 96, d);
    in += 2 * line_bytes;
    out += 2 * line_bytes;
  }
  plain::store_copy(out, in, bytes);
}

PENSTOCK_AVX2 void nt_tagged(void* to, const void* from, std::size_t bytes,
                             std::uint64_t first_tag) {
  if (bytes == 0) return;
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  const std::size_t lines = plain::tagged_lines(bytes);
  for (std::size_t i = 0; i + 1 < lines; ++i) {
    stream_payload(out + i * line_bytes, in + i * plain::tagged);
  }
  alignas(32) std::byte tail[plain::tagged] = {};
  std::memcpy(tail, in + (lines - 1) * plain::tagged, bytes - (lines - 1) * plain::tagged);
  stream_payload(out + (lines - 1) * line_bytes, tail);
  _mm_sfence();
  for (std::size_t i = 0; i < lines; ++i) {
    nt_word(plain::last_word(out + i * line_bytes), first_tag + i);
  }
}

PENSTOCK_AVX2 void store_tagged(void* to, const void* from, std::size_t bytes,
                                std::uint64_t line_tag) {
  if (bytes == 0) return;
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  for (; bytes > plain::tagged; bytes -= plain::tagged, ++line_tag) {
    copy_payload(out, in);
    __atomic_store_n(plain::last_word(out), line_tag, __ATOMIC_RELEASE);
    in += plain::tagged;
    out += line_bytes;
  }
  std::memcpy(out, in, bytes);
  __atomic_store_n(plain::last_word(out), line_tag, __ATOMIC_RELEASE);
}

PENSTOCK_AVX2 std::size_t load_tagged(void* to, const void* from, std::size_t bytes,
                                      std::uint64_t line_tag) {
  if (bytes == 0) return 0;
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  std::size_t left = bytes;
  for (; left > plain::tagged; left -= plain::tagged, ++line_tag) {
    if (__atomic_load_n(plain::last_word(in), __ATOMIC_ACQUIRE) != line_tag) return bytes - left;
    copy_payload(out, in);
    in += line_bytes;
    out += plain::tagged;
  }
  if (__atomic_load_n(plain::last_word(in), __ATOMIC_ACQUIRE) != line_tag) return bytes - left;
  std::memcpy(out, in, left);
  return bytes;
}

}  // namespace penstock::arch::x86_64::avx2
