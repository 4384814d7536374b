// Write-backs, fences and the partial non-temporal store.
#include <immintrin.h>

#include <cstring>

#include "arch/x86_64/x86_64.hpp"

namespace penstock::arch::x86_64 {
namespace {

/// The lines that [at, at + bytes) touches.
struct Lines {
  char* begin;
  char* end;
  Lines(const void* at, std::size_t bytes) {
    const auto first = reinterpret_cast<std::uintptr_t>(at) & ~std::uintptr_t{line_bytes - 1};
    begin = reinterpret_cast<char*>(first);
    end =
        bytes == 0 ? begin : reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(at) + bytes);
  }
};

}  // namespace

void write_back_clflush(const void* at, std::size_t bytes) {
  const Lines lines(at, bytes);
  for (char* line = lines.begin; line < lines.end; line += line_bytes) _mm_clflush(line);
}

[[gnu::target("clflushopt")]] void write_back_clflushopt(const void* at, std::size_t bytes) {
  const Lines lines(at, bytes);
  for (char* line = lines.begin; line < lines.end; line += line_bytes) _mm_clflushopt(line);
}

[[gnu::target("clwb")]] void write_back_clwb(const void* at, std::size_t bytes) {
  const Lines lines(at, bytes);
  for (char* line = lines.begin; line < lines.end; line += line_bytes) _mm_clwb(line);
}

void store_fence() {
  _mm_sfence();
}
void full_fence() {
  _mm_mfence();
}

void nt_word(void* to, std::uint64_t value) {
  _mm_stream_si64(static_cast<long long*>(to), static_cast<long long>(value));
}

void nt_bytes(void* to, const void* from, std::size_t bytes) {
  // The window is aligned, so that masked-out bytes are never on another page.
  constexpr std::size_t window = 16;
  const auto at = reinterpret_cast<std::uintptr_t>(to);
  const std::size_t skipped = at % window;
  alignas(window) char data[window] = {}, mask[window] = {};
  std::memcpy(data + skipped, from, bytes);
  std::memset(mask + skipped, 0x80, bytes);
  _mm_maskmoveu_si128(_mm_load_si128(reinterpret_cast<const __m128i*>(data)),
                      _mm_load_si128(reinterpret_cast<const __m128i*>(mask)),
                      reinterpret_cast<char*>(at - skipped));
}

void relax() {
  _mm_pause();
}

}  // namespace penstock::arch::x86_64
