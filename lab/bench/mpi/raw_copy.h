/* A bare copy past the cache: the limit with which puts are compared. */
#pragma once

#include <stddef.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>

enum { raw_line = 64 };

__attribute__((target("avx512f"))) static inline void raw_lines_512(char* to, const char* from,
                                                                    size_t bytes) {
  for (size_t i = 0; i < bytes; i += raw_line) {
    _mm512_stream_si512((void*)(to + i), _mm512_loadu_si512(from + i));
  }
}

__attribute__((target("avx"))) static inline void raw_lines_256(char* to, const char* from,
                                                                size_t bytes) {
  for (size_t i = 0; i < bytes; i += 32) {
    _mm256_stream_si256((__m256i*)(to + i), _mm256_loadu_si256((const __m256i*)(from + i)));
  }
}

static inline void raw_lines_128(char* to, const char* from, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 16) {
    _mm_stream_si128((__m128i*)(to + i), _mm_loadu_si128((const __m128i*)(from + i)));
  }
}

/* Copies words of 8 bytes past the cache, and the rest by ordinary stores. */
static inline void raw_words(char* to, const char* from, size_t bytes) {
  for (; bytes >= 8 && (size_t)to % 8 == 0; bytes -= 8, to += 8, from += 8) {
    long long word;
    memcpy(&word, from, sizeof word);
    _mm_stream_si64((long long*)to, word);
  }
  memcpy(to, from, bytes);
}

/* Copies whole lines by the widest stores that the processor has. */
static inline void raw_copy(char* to, const char* from, size_t bytes) {
  size_t head = (raw_line - (size_t)to % raw_line) % raw_line;
  if (head > bytes) head = bytes;
  const size_t lines = (bytes - head) / raw_line * raw_line;
  raw_words(to, from, head);
  if (__builtin_cpu_supports("avx512f")) {
    raw_lines_512(to + head, from + head, lines);
  } else if (__builtin_cpu_supports("avx")) {
    raw_lines_256(to + head, from + head, lines);
  } else {
    raw_lines_128(to + head, from + head, lines);
  }
  raw_words(to + head + lines, from + head + lines, bytes - head - lines);
}

/* Store fence: all copies so far have left the processor. */
static inline void raw_order(void) {
  _mm_sfence();
}

/* Drops copies of lines from the caches; loads after it fetch them anew. */
__attribute__((target("clflushopt"))) static inline void raw_drop(const char* at, size_t bytes) {
  for (size_t i = 0; i < bytes; i += raw_line) _mm_clflushopt((void*)(size_t)(at + i));
  _mm_mfence();
}

#else

static inline void raw_drop(const char* at, size_t bytes) {
  (void)at;
  (void)bytes;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline void raw_copy(char* to, const char* from, size_t bytes) {
  memcpy(to, from, bytes);
}

static inline void raw_order(void) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

#endif
