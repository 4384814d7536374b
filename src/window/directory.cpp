#include "window/directory.hpp"

#include <algorithm>
#include <utility>

namespace penstock::window {

namespace {

constexpr std::uint32_t digit_bits = 3;
static_assert(1u << digit_bits == words_of_line);

}  // namespace

Directory::Directory(const Context& context) : context_(context) {
  for (std::uint64_t held = words_of_line; held < context.ranks(); held *= words_of_line) ++levels_;
  root_.place = place_of(RankLine::directory, context.own().words);
}

/// Offset of the word in a directory line that leads to the next level. High digits come first.
std::uint64_t Directory::word_at(std::uint64_t place, std::uint32_t level,
                                 std::uint32_t other) const {
  const std::uint32_t digit = other >> digit_bits * (levels_ - 1 - level) & (words_of_line - 1);
  return place + 8 * digit;
}

Result<void> Directory::prepare(std::uint32_t reader) {
  if (to(reader) != 0) return {};
  const std::uint64_t made = PENSTOCK_TRY(enter(root_, 0, reader));
  if (to_.empty()) to_.resize(context_.ranks());
  to_[reader] = made;
  return {};
}

Result<std::uint64_t> Directory::enter(Line& line, std::uint32_t level, std::uint32_t reader) {
  const std::uint64_t word = word_at(line.place, level, reader);
  const bool leaf = level + 1 == levels_;
  std::unique_ptr<Line>& next = line.next[(word - line.place) / 8];
  if (next != nullptr) return enter(*next, level + 1, reader);
  const std::uint64_t made = PENSTOCK_TRY(context_.more(leaf ? pair_bytes : line_bytes));
  std::uint64_t pair = made;
  if (!leaf) {
    auto line_below = std::make_unique<Line>();
    line_below->place = made;
    pair = PENSTOCK_TRY(enter(*line_below, level + 1, reader));
    next = std::move(line_below);
  }
  const auto& memory = context_.memory;
  memory.store_fence();  // the named memory is at the device first; pairs with find()
  memory.publish_word(context_.at(word), made);
  return pair;
}

void Directory::find(std::span<const std::uint32_t> writers) {
  struct Step {
    std::uint32_t writer;
    std::uint64_t at;
  };
  std::vector<Step> steps;
  for (const std::uint32_t writer : writers) {
    if (from(writer) == 0)
      steps.push_back({writer, place_of(RankLine::directory, context_.member(writer).words)});
  }
  const auto& memory = context_.memory;
  for (std::uint32_t level = 0; level < levels_ && !steps.empty(); ++level) {
    for (Step& step : steps) {
      step.at = word_at(step.at, level, context_.self());
      memory.invalidate(context_.at(step.at), 8);
    }
    memory.load_fence();
    const std::uint64_t bytes = level + 1 == levels_ ? pair_bytes : line_bytes;
    std::erase_if(steps, [&](Step& step) {
      step.at = memory.load_word(context_.at(step.at));
      return !context_.is_place(step.at, bytes);
    });
  }
  if (steps.empty()) return;
  if (from_.empty()) from_.resize(context_.ranks());
  for (const Step& step : steps) from_[step.writer] = step.at;
}

}  // namespace penstock::window
