#include "transport/mailbox.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace penstock::transport {
namespace {

/// A sweep reads this many lines, or a fourth of all if that is more. In a large job the lines take
/// turns, so that silent senders do not make an empty sweep longer.
constexpr std::uint32_t lines_of_sweep = 8, parts_of_mailbox = 4;

}  // namespace

Mailbox::Mailbox(const EndpointTable& table, const coherence::Memory& memory, std::uint32_t owner)
    : table_(table), memory_(memory), owner_(owner), seen_(table.count()), words_(table.count()) {
  // A stale copy will do: a word that has changed since only wakes this endpoint in vain.
  memory_.load_bulk(seen_.data(), table_.word(owner, 0), mailbox_word_bytes * seen_.size());
  rung_ = seen_[owner];
}

Mailbox::Part Mailbox::next_part() {
  const std::uint32_t lines = std::max(lines_of_sweep, (lines_ - 1) / parts_of_mailbox + 1);
  const std::uint32_t first = next_line_ < lines_ ? next_line_ : 0;
  next_line_ = first + lines;
  return {first, std::min(lines, lines_ - first)};
}

void Mailbox::drop_copies(Part part) const {
  if (part.first == 0) memory_.invalidate(table_.high_water_line(), line_bytes);
  memory_.invalidate(table_.mailbox_line(owner_, part.first), line_bytes * part.lines);
}

void Mailbox::drop_bell() const {
  memory_.invalidate(table_.word(owner_, owner_), mailbox_word_bytes);
}

bool Mailbox::rung() {
  const std::uint64_t word = memory_.load_word(table_.word(owner_, owner_));
  return std::exchange(rung_, word) != word;
}

/// Loads all words of the part at once, so that the line reads overlap; a torn word would only
/// wake in vain.
bool Mailbox::changed(Part part) {
  const std::uint64_t first = std::uint64_t{words_a_line} * part.first,
                      bytes = line_bytes * part.lines;
  memory_.load_bulk(&words_[first], table_.mailbox_line(owner_, part.first), bytes);
  if (part.first == 0) {
    HighWater high_water;
    memory_.load_line(&high_water, table_.high_water_line());
    lines_ = std::max(1u, table_.mailbox_lines(high_water));  // includes new senders from now on
  }
  return std::memcmp(&words_[first], &seen_[first], bytes) != 0;
}

}  // namespace penstock::transport
