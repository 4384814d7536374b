#include "transport/mailbox.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace penstock::transport {
namespace {

/// A sweep reads this many lines, or a fourth of all if that is more. In a large job the lines take
/// turns, so silent senders do not lengthen an empty sweep.
constexpr std::uint32_t lines_of_sweep = 8, parts_of_mailbox = 4;

}  // namespace

Mailbox::Mailbox(const EndpointTable& table, const coherence::Memory& memory, std::uint32_t owner)
    : table_(table),
      memory_(memory),
      owner_(owner),
      box_(table.tiles().box(owner)),
      tiles_(table.tiles().layout().groups()) {
  memory_.invalidate(box_, line_bytes);
  memory_.load_fence();
  rung_ = memory_.load_word(box_ + TableLayout::bell);
  latest_ = memory_.load_word(box_ + TableLayout::latest);
  if (latest_ == 0) return;  // no sender has ever used this slot
  read_directory();
  // a stale copy is good enough: a word that has changed since causes one vain look
  for (Line& line : lines_) memory_.load_bulk(line.seen, line.at, line_bytes);
}

Mailbox::Part Mailbox::next_part() {
  const std::uint32_t known = lines();
  const std::uint32_t most =
      std::max(lines_of_sweep, (known + parts_of_mailbox - 1) / parts_of_mailbox);
  const std::uint32_t first = next_line_ < known ? next_line_ : 0;
  next_line_ = first + most;
  return {first, std::min(most, known - first), first == 0};
}

void Mailbox::drop_copies(Part part) const {
  if (part.box) memory_.invalidate(box_, line_bytes);
  for (std::uint32_t i = part.first, end = part.first + part.lines; i < end;) {
    std::uint32_t together = 1;  // adjacent lines
    while (i + together < end && lines_[i + together].at == lines_[i].at + line_bytes * together)
      ++together;
    memory_.invalidate(lines_[i].at, line_bytes * together);
    i += together;
  }
}

void Mailbox::drop_bell() const {
  memory_.invalidate(box_, line_bytes);
}

bool Mailbox::rung() {
  const std::uint64_t word = memory_.load_word(box_ + TableLayout::bell);
  return std::exchange(rung_, word) != word;
}

/// A torn word causes at most a vain look.
bool Mailbox::changed(std::uint32_t number, std::uint64_t* words) const {
  memory_.load_bulk(words, lines_[number].at, line_bytes);
  return std::memcmp(words, lines_[number].seen, line_bytes) != 0;
}

void Mailbox::find_new() {
  const std::uint64_t latest = memory_.load_word(box_ + TableLayout::latest);
  if (std::exchange(latest_, latest) != latest) read_directory();
}

/// Pairs with MailboxTiles::enter.
void Mailbox::read_directory() {
  std::vector<std::uint64_t> entries(tiles_.size());
  memory_.observe_bulk(entries.data(), box_ + TableLayout::directory,
                       mailbox_word_bytes * entries.size());
  for (std::uint32_t group = 0; group < entries.size(); ++group) adopt(group, entries[group]);
}

/// Known lines are watched for ever: a sender may still write there although the entry was
/// overwritten. Overwritten entries add at most as many lines again as there are senders for.
void Mailbox::adopt(std::uint32_t group, std::uint64_t entry) {
  const auto offset = table_.tiles().tile_of(entry, {owner_, group});
  if (!offset) return;
  Tile& tile = tiles_[group];
  if (tile.offset != *offset) tile = {.offset = *offset};
  const std::uint64_t most = 2ull * tile_lines * tiles_.size();
  const std::uint32_t more = TileEntry::lines(entry) & ~tile.lines;
  for (std::uint32_t line = 0; line < tile_lines; ++line) {
    if ((more >> line & 1) == 0 || lines_.size() == most) continue;
    tile.lines |= 1u << line;
    tile.number[line] = lines();
    lines_.push_back({table_.tiles().at(*offset) + line_bytes * line,
                      senders_a_tile * group + words_a_line * line,
                      {}});
  }
}

std::uint64_t Mailbox::seen(Peer sender) const {
  const Tile& tile = tiles_[sender / senders_a_tile];
  const std::uint32_t line = sender % senders_a_tile / words_a_line;
  if ((tile.lines >> line & 1) == 0) return 0;
  return lines_[tile.number[line]].seen[sender % words_a_line];
}

Peer Mailbox::next_to_audit() {
  const std::uint32_t word = audited_++ % (words_a_line * lines());
  return lines_[word / words_a_line].first + word % words_a_line;
}

}  // namespace penstock::transport
