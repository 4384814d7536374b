#include <cpuid.h>

#include "arch/isa.hpp"

namespace penstock::arch::isa {

Features detect() {
  __builtin_cpu_init();  // also checks which registers the operating system saves
  Features features;
  features.sse2 = __builtin_cpu_supports("sse2");
  features.partial_nt_store = features.sse2;
  features.avx2 = __builtin_cpu_supports("avx2");
  features.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
  unsigned a, b, c, d;
  if (__get_cpuid(1, &a, &b, &c, &d)) features.clflush = (d >> 19 & 1) != 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
    features.clflushopt = (b >> 23 & 1) != 0;
    features.clwb = (b >> 24 & 1) != 0;
  }
  return features;
}

std::optional<Features> lowered(const Features& features, std::string_view isa) {
  Features result = features;
  if (isa == "avx512") return features.avx512 ? std::optional(result) : std::nullopt;
  result.avx512 = false;
  if (isa == "avx2") return features.avx2 ? std::optional(result) : std::nullopt;
  result.avx2 = false;
  if (isa == "sse2") return result;
  return std::nullopt;
}

}  // namespace penstock::arch::isa
