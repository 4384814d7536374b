#include "arena/primes.hpp"

namespace penstock::arena {

bool is_prime(std::uint64_t number) {
  if (number < 2) return false;
  if (number % 2 == 0) return number == 2;
  for (std::uint64_t divisor = 3; divisor <= number / divisor; divisor += 2) {
    if (number % divisor == 0) return false;
  }
  return true;
}

std::optional<LevelSizes> level_sizes(std::uint64_t capacity) {
  LevelSizes sizes{};
  std::uint64_t candidate = capacity;
  for (auto& size : sizes) {
    while (candidate >= 2 && !is_prime(candidate)) --candidate;
    if (candidate < 2) return std::nullopt;
    size = candidate--;
  }
  return sizes;
}

}  // namespace penstock::arena
