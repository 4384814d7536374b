// Checks that must hold for any contents of the pool. libFuzzer keeps the input of a program that
// aborts.
#pragma once

#include <fmt/core.h>

#include <cstdlib>
#include <string>

#include "base/status.hpp"

namespace penstock::fuzz {

/// Whether an error has a meaningful text.
inline bool is_told(const Error& error) {
  return error.message.size() > 10;
}

inline void expect(bool holds, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (holds) return;
  fmt::print(stderr, "{}:{}: what must hold does not\n", file, line);
  std::abort();
}

/// Checks a result that the target itself needs, such as memory for its pool.
template <class T>
void need(const Result<T>& result, const char* file = __builtin_FILE(),
          int line = __builtin_LINE()) {
  if (result) return;
  fmt::print(stderr, "{}:{}: the target needs: {}\n", file, line, result.error().message);
  std::abort();
}

}  // namespace penstock::fuzz
