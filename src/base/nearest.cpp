#include "base/nearest.hpp"

#include <algorithm>
#include <vector>

namespace penstock::base {
namespace {

/// Counts letters omitted, added or replaced, and swaps of two letters.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> steps(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) steps[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) steps[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = steps[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      steps[i][j] = std::min({replaced, steps[i - 1][j] + 1, steps[i][j - 1] + 1});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) steps[i][j] = std::min(steps[i][j], steps[i - 2][j - 2] + 1);
    }
  }
  return steps[a.size()][b.size()];
}

/// One letter is one step; an ending omitted or added ("TIMEOUT" for "TIMEOUT_MS") is also one.
std::size_t distance(std::string_view word, std::string_view known) {
  const bool same_beginning = known.starts_with(word) || word.starts_with(known);
  if (same_beginning && std::min(word.size(), known.size()) >= 4) return word == known ? 0 : 1;
  return edit_distance(word, known);
}

}  // namespace

std::string nearest(std::string_view word, std::span<const std::string> known) {
  std::string found;
  std::size_t best = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : known) {
    // a suggestion must share some letters with a short word
    const std::size_t steps = distance(word, candidate);
    if (steps >= best || steps >= std::max(word.size(), candidate.size())) continue;
    best = steps;
    found = candidate;
  }
  return found;
}

}  // namespace penstock::base
