#include "transport/peer_statistics.hpp"

#include <algorithm>
#include <cstring>

#include "base/format.hpp"
#include "transport/endpoint_table.hpp"

namespace penstock::transport {

namespace {

/// Key of the checksums of an endpoint's rows in the table. Rows of earlier owners of the slot do
/// not match it.
std::uint64_t key_of_rows(const EndpointTable& table, std::uint32_t slot,
                          std::uint64_t generation) {
  return table.key() + (generation << 32 | slot);
}

}  // namespace

PeerStatistics::PeerStatistics(arena::Arena& arena, const EndpointTable& table, const Address& self)
    : arena_(&arena),
      first_rows_(table.rows(self.slot)),
      first_key_(key_of_rows(table, self.slot, self.generation)),
      self_(self) {}

PeerStatistics::~PeerStatistics() {
  for (const auto& piece : pieces_) (void)arena_->destroy(piece);
}

bool PeerStatistics::make_piece() {
  const std::string name = fmt::format("{}{}.{}.{}", peer_statistics_prefix, self_.slot,
                                       self_.generation, pieces_.size());
  auto object = arena_->create(name, line_bytes * (1 + rows_of_piece),
                               {.lifetime = arena::Lifetime::process,
                                .near = arena_->pool().own_part()});  // zero rows are unused
  full_ = !object;
  if (full_) return false;
  PeerStatisticsHeader header{};
  header.magic = peer_statistics_magic;
  header.token = arena_->pool().token();
  header.slot = self_.slot;
  header.generation = self_.generation;
  header.checksum = checksum_of(header);
  arena_->pool().memory().publish_line(object->data, &header);  // pairs with peer_counts()
  pieces_.push_back(*object);
  return true;
}

void PeerStatistics::make_room(Peer peer) {
  if (row_of(peer) != no_row || full_ || !make_piece()) return;
  (void)row_of(peer);
}

std::uint32_t PeerStatistics::row_of(Peer peer) {
  if (const auto known = row_of_.find(peer); known != row_of_.end()) return known->second;
  const auto number = static_cast<std::uint32_t>(rows_.size());
  if (number == rows_of_slot + pieces_.size() * rows_of_piece) return no_row;
  rows_.push_back({.peer = peer});
  row_of_[peer] = number;
  return number;
}

void PeerStatistics::publish(Peer peer, std::uint32_t generation, const EndpointStats& counts) {
  const std::uint32_t number = row_of(peer);
  if (number == no_row) return;
  PeerStatisticsRow& row = rows_[number];
  if (row.generation == generation && row.counts == counts) return;
  row.generation = generation;
  row.counts = counts;
  const bool in_table = number < rows_of_slot;
  row.checksum = checksum_of(row, in_table ? first_key_ : 0);
  const std::uint64_t behind = number - rows_of_slot;
  std::byte* const at =
      in_table ? first_rows_ + line_bytes * number
               : pieces_[behind / rows_of_piece].data + line_bytes * (1 + behind % rows_of_piece);
  arena_->pool().memory().publish_line(at, &row);  // pairs with peer_counts()
}

namespace {

using Lines = std::vector<std::optional<EndpointLine>>;

/// Adds the row if it is plausible. `from`: the endpoint that published it.
void add_row(const PeerStatisticsRow& row, std::uint64_t key, Peer from, std::uint64_t token,
             const Lines& lines, std::vector<PeerCounts>& found) {
  if (row.checksum != checksum_of(row, key) || row.peer >= lines.size()) return;
  const auto& line = lines[row.peer];
  const bool there = line && line->generation == row.generation && line->open();
  found.push_back({.endpoint = from,
                   .peer = row.peer,
                   .token = token,
                   .peer_token = there ? line->token : 0,
                   .counts = row.counts});
}

/// Adds the rows of a slot in the table.
void add_first_rows(const EndpointTable& table, const coherence::Memory& memory, Peer slot,
                    const Lines& lines, std::vector<PeerCounts>& found) {
  PeerStatisticsRow rows[rows_of_slot];
  memory.observe_bulk(rows, table.rows(slot), sizeof rows);
  const std::uint64_t key = key_of_rows(table, slot, lines[slot]->generation);
  for (const PeerStatisticsRow& row : rows)
    add_row(row, key, slot, lines[slot]->token, lines, found);
}

/// Adds the rows of one object.
void add_rows(const arena::Object& object, const coherence::Memory& memory, const Lines& lines,
              std::vector<PeerCounts>& found) {
  const std::uint64_t number = std::min(object.bytes / line_bytes, 1 + rows_of_piece);
  std::vector<PeerStatisticsRow> rows(number);
  memory.observe_bulk(rows.data(), object.data, line_bytes * number);
  PeerStatisticsHeader header;
  if (number == 0) return;
  std::memcpy(&header, rows.data(), sizeof header);
  if (header.magic != peer_statistics_magic || header.checksum != checksum_of(header)) return;
  for (auto row = rows.begin() + 1; row != rows.end(); ++row)
    add_row(*row, 0, header.slot, header.token, lines, found);
}

}  // namespace

std::vector<PeerCounts> peer_counts(arena::Arena& arena) {
  std::vector<PeerCounts> found;
  const auto objects = arena.list();
  const bool ever = std::any_of(objects.begin(), objects.end(),
                                [&](const auto& object) { return object.name == table_name; });
  if (!ever) return found;  // opening would make the table
  const auto table = EndpointTable::open(arena);
  if (!table) return found;
  const coherence::Memory& memory = arena.pool().memory();
  const Lines lines = table->read_all();
  for (Peer slot = 0; slot < lines.size(); ++slot)
    if (lines[slot] && lines[slot]->open()) add_first_rows(*table, memory, slot, lines, found);
  for (const arena::Object& object : objects)
    if (object.name.starts_with(peer_statistics_prefix)) add_rows(object, memory, lines, found);
  return found;
}

}  // namespace penstock::transport
