// Operations for every x86_64 CPU. There is no 64-byte store: a line's last word goes last, after a
// fence when the stores are non-temporal.
#include <emmintrin.h>

#include "arch/plain.hpp"
#include "arch/x86_64/x86_64.hpp"

namespace penstock::arch::x86_64::sse2 {
namespace {

__m128i load16(const std::byte* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

void stream16(std::byte* to, __m128i value) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), value);
}

void stream8(std::byte* to, const std::byte* from) {
  long long word;
  std::memcpy(&word, from, sizeof word);
  _mm_stream_si64(reinterpret_cast<long long*>(to), word);
}

void stream_line(std::byte* to, const std::byte* from) {
  const __m128i a = load16(from), b = load16(from + 16), c = load16(from + 32),
                d = load16(from + 48);
  stream16(to, a);
  stream16(to + 16, b);
  stream16(to + 32, c);
  stream16(to + 48, d);
}

void stream_payload(std::byte* to, const std::byte* from) {
  stream16(to, load16(from));
  stream16(to + 16, load16(from + 16));
  stream16(to + 32, load16(from + 32));
  stream8(to + 48, from + 48);
}

}  // namespace

void nt_line(void* to, const void* from) {
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  stream_payload(out, in);
  _mm_sfence();
  stream8(out + plain::tagged, in + plain::tagged);
}

void nt_copy(void* to, const void* from, std::size_t bytes) {
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

void nt_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag) {
  if (bytes == 0) return;
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  const std::size_t lines = plain::tagged_lines(bytes);
  for (std::size_t i = 0; i + 1 < lines; ++i) {
    stream_payload(out + i * line_bytes, in + i * plain::tagged);
  }
  alignas(16) std::byte tail[plain::tagged] = {};
  std::memcpy(tail, in + (lines - 1) * plain::tagged, bytes - (lines - 1) * plain::tagged);
  stream_payload(out + (lines - 1) * line_bytes, tail);
  _mm_sfence();
  for (std::size_t i = 0; i < lines; ++i) {
    nt_word(plain::last_word(out + i * line_bytes), first_tag + i);
  }
}

void store_copy(void* to, const void* from, std::size_t bytes) {
  plain::store_copy(to, from, bytes);
}
void store_line(void* to, const void* from) {
  plain::store_line(to, from);
}
void store_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag) {
  plain::store_tagged(to, from, bytes, first_tag);
}
// Caches keep the order of plain stores: whenever a line leaves, its last word vouches for the
// others. So no fence is needed, and the line arrives sooner than by non-temporal stores.
void send_line(void* to, const void* from) {
  plain::store_line(to, from);
  write_back_clwb(to, line_bytes);
}

void send_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag) {
  plain::store_tagged(to, from, bytes, first_tag);
  write_back_clwb(to, plain::tagged_lines(bytes) * line_bytes);
}

std::size_t load_tagged(void* to, const void* from, std::size_t bytes, std::uint64_t first_tag) {
  return plain::load_tagged(to, from, bytes, first_tag);
}
void load_line(void* to, const void* from) {
  plain::load_line(to, from);
}

}  // namespace penstock::arch::x86_64::sse2
