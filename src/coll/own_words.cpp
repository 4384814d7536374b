#include "coll/own_words.hpp"

#include <algorithm>

namespace penstock::coll {

namespace {

/// A limit, so that a look costs the same in large communicators.
constexpr std::size_t releases_at_once = 64;

}  // namespace

bool OwnWords::restore_word(std::uint64_t offset, std::uint64_t word) {
  if (memory_.load_word(area_ + offset) == word) return false;
  memory_.publish_word(area_ + offset, word);
  return true;
}

bool OwnWords::restore() {
  const auto ranks = static_cast<std::uint32_t>(releases_.size());
  const std::size_t count = std::min<std::size_t>(ranks, releases_at_once);
  const auto producer = [&](std::size_t i) {
    return static_cast<std::uint32_t>((next_ + i) % ranks);
  };
  memory_.invalidate(area_ + layout_.row(self_), row_words * 8);
  for (std::size_t i = 0; i < count; ++i)
    memory_.invalidate(area_ + layout_.release(producer(i), self_), 8);
  memory_.load_fence();
  bool some = false;
  for (std::size_t i = 0; i < row_.size(); ++i)
    some |= restore_word(layout_.row(self_) + i * 8, row_[i]);
  for (std::size_t i = 0; i < count; ++i)
    some |= restore_word(layout_.release(producer(i), self_), releases_[producer(i)]);
  next_ = producer(count);
  return some;
}

}  // namespace penstock::coll
