// A line is one 64-byte store, so that it leaves whole.
#include <immintrin.h>

#include "arch/plain.hpp"
#include "arch/x86_64/x86_64.hpp"

#define PENSTOCK_AVX512 [[gnu::target("avx512f,avx512bw")]]
#define PENSTOCK_AVX512_CLWB [[gnu::target("avx512f,avx512bw,clwb")]]
// Always inlined, because the callers may use more instruction sets than the helpers.
#define PENSTOCK_AVX512_HELPER [[gnu::target("avx512f,avx512bw"), gnu::always_inline]] inline

namespace penstock::arch::x86_64::avx512 {
namespace {

constexpr __mmask8 tag_lane = 0x80;
constexpr __mmask8 payload_lanes = 0x7f;
/// Lines prefetched before they are read: the checks of tags keep the core from running as far
/// ahead by itself. Measured: 4 KB arrive 60 to 100 ns sooner.
constexpr std::size_t lines_ahead = 24;

PENSTOCK_AVX512_HELPER __mmask64 first_bytes(std::size_t bytes) {
  return bytes >= 64 ? ~__mmask64{0} : (__mmask64{1} << bytes) - 1;
}

/// A full line: 56 bytes of payload and the tag.
PENSTOCK_AVX512_HELPER __m512i tagged_line(const std::byte* from, std::uint64_t line_tag) {
  const __m512i payload = _mm512_maskz_loadu_epi64(payload_lanes, from);
  return _mm512_mask_set1_epi64(payload, tag_lane, static_cast<long long>(line_tag));
}

/// The last line: `bytes` of payload, zeros, tag.
PENSTOCK_AVX512_HELPER __m512i tagged_tail(const std::byte* from, std::size_t bytes,
                                           std::uint64_t line_tag) {
  const __m512i payload = _mm512_maskz_loadu_epi8(first_bytes(bytes), from);
  return _mm512_mask_set1_epi64(payload, tag_lane, static_cast<long long>(line_tag));
}

PENSTOCK_AVX512_HELPER void stream(std::byte* to, __m512i value) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), value);
}

}  // namespace

PENSTOCK_AVX512 void nt_line(void* to, const void* from) {
  stream(static_cast<std::byte*>(to), _mm512_loadu_si512(from));
}

PENSTOCK_AVX512 void nt_copy(void* to, const void* from, std::size_t bytes) {
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  for (; bytes >= 4 * line_bytes; bytes -= 4 * line_bytes) {
    const __m512i a = _mm512_loadu_si512(in), b = _mm512_loadu_si512(in + 64);
    const __m512i c = _mm512_loadu_si512(in + 128), d = _mm512_loadu_si512(in + 192);
    stream(out, a);
    stream(out + 64, b);
    stream(out + 128, c);
    stream(out + 192, d);
    in += 4 * line_bytes;
    out += 4 * line_bytes;
  }
  for (; bytes >= line_bytes; bytes -= line_bytes, in += line_bytes, out += line_bytes) {
    stream(out, _mm512_loadu_si512(in));
  }
  if (bytes != 0) stream(out, _mm512_maskz_loadu_epi8(first_bytes(bytes), in));
}

PENSTOCK_AVX512 void nt_tagged(void* to, const void* from, std::size_t bytes,
                               std::uint64_t line_tag) {
  if (bytes == 0) return;
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  for (; bytes > 4 * plain::tagged; bytes -= 4 * plain::tagged, line_tag += 4) {
    const __m512i a = tagged_line(in, line_tag), b = tagged_line(in + 56, line_tag + 1);
    const __m512i c = tagged_line(in + 112, line_tag + 2), d = tagged_line(in + 168, line_tag + 3);
    stream(out, a);
    stream(out + 64, b);
    stream(out + 128, c);
    stream(out + 192, d);
    in += 4 * plain::tagged;
    out += 4 * line_bytes;
  }
  for (; bytes > plain::tagged; bytes -= plain::tagged, ++line_tag) {
    stream(out, tagged_line(in, line_tag));
    in += plain::tagged;
    out += line_bytes;
  }
  stream(out, tagged_tail(in, bytes, line_tag));
}

PENSTOCK_AVX512 void store_line(void* to, const void* from) {
  _mm512_store_si512(to, _mm512_loadu_si512(from));
}

PENSTOCK_AVX512_CLWB void send_line(void* to, const void* from) {
  _mm512_store_si512(to, _mm512_loadu_si512(from));
  _mm_clwb(to);
}

PENSTOCK_AVX512_CLWB void send_tagged(void* to, const void* from, std::size_t bytes,
                                      std::uint64_t line_tag) {
  if (bytes == 0) return;
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  for (; bytes > plain::tagged; bytes -= plain::tagged, ++line_tag) {
    _mm512_store_si512(out, tagged_line(in, line_tag));
    _mm_clwb(out);
    in += plain::tagged;
    out += line_bytes;
  }
  _mm512_store_si512(out, tagged_tail(in, bytes, line_tag));
  _mm_clwb(out);
}

PENSTOCK_AVX512 std::size_t load_tagged(void* to, const void* from, std::size_t bytes,
                                        std::uint64_t line_tag) {
  if (bytes == 0) return 0;
  auto* out = static_cast<std::byte*>(to);
  auto* in = static_cast<const std::byte*>(from);
  std::size_t left = bytes;
  // Never beyond the message: a copy of a line that is not written yet would be stale later.
  const auto* last = in + (bytes - 1) / plain::tagged * line_bytes;
  for (auto* ahead = in; ahead <= last && ahead < in + lines_ahead * line_bytes;
       ahead += line_bytes)
    _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T0);
  for (; left > plain::tagged; left -= plain::tagged, ++line_tag) {
    if (const auto* ahead = in + lines_ahead * line_bytes; ahead <= last)
      _mm_prefetch(reinterpret_cast<const char*>(ahead), _MM_HINT_T0);
    // The tag is read first, by a load of its own: cheaper than taking it out of the vector.
    if (__atomic_load_n(plain::last_word(in), __ATOMIC_ACQUIRE) != line_tag) return bytes - left;
    _mm512_mask_storeu_epi64(out, payload_lanes, _mm512_load_si512(in));
    in += line_bytes;
    out += plain::tagged;
  }
  if (__atomic_load_n(plain::last_word(in), __ATOMIC_ACQUIRE) != line_tag) return bytes - left;
  _mm512_mask_storeu_epi8(out, first_bytes(left), _mm512_load_si512(in));
  return bytes;
}

}  // namespace penstock::arch::x86_64::avx512
