// Sizes as people write them.
#include <charconv>

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"

namespace penstock::base {
namespace {

struct Unit {
  char letter;
  std::uint64_t bytes;
};
constexpr Unit units[] = {
    {'T', 1ull << 40}, {'G', 1ull << 30}, {'M', 1ull << 20}, {'K', 1ull << 10}};

/// "", "K", "k", "KiB" and so on; nullopt for anything else.
std::optional<std::uint64_t> unit_bytes(std::string_view suffix) {
  if (suffix.empty()) return 1;
  const std::string_view rest = suffix.substr(1);
  if (!rest.empty() && rest != "iB") return std::nullopt;
  for (const Unit& unit : units) {
    if (suffix[0] == unit.letter || suffix[0] == unit.letter + ('a' - 'A')) return unit.bytes;
  }
  return std::nullopt;
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc()) {
    const auto unit = unit_bytes(text.substr(static_cast<std::size_t>(end - text.data())));
    if (unit) {
      if (const auto bytes = checked_mul(number, *unit)) return *bytes;
      return fail(ErrorCode::invalid_argument, "'{}' is more than 64 bits hold", text);
    }
  }
  return fail(
      ErrorCode::invalid_argument,
      "'{}' is not a size: write a whole number with an optional K, M, G or T, such as 512M", text);
}

std::string format_bytes(std::uint64_t bytes) {
  for (const Unit& unit : units) {
    if (bytes != 0 && bytes % unit.bytes == 0) {
      return fmt::format("{} {}iB", bytes / unit.bytes, unit.letter);
    }
  }
  return fmt::format("{} B", bytes);
}

}  // namespace penstock::base
