#include "transport/peer_statistics.hpp"

#include <cstring>

#include "base/format.hpp"
#include "transport/endpoint_table.hpp"

namespace penstock::transport {

PeerStatistics::PeerStatistics(arena::Arena& arena, const Address& self)
    : arena_(&arena), self_(self) {
  (void)make_piece();
}

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
  arena_->pool().memory().publish_line(object->data, &header);  // pairs with peer_counts
  pieces_.push_back(*object);
  return true;
}

void PeerStatistics::make_room(Peer peer) {
  if (row_of(peer) != nullptr || full_ || !make_piece()) return;
  (void)row_of(peer);
}

PeerStatisticsRow* PeerStatistics::row_of(Peer peer) {
  if (row_of_.size() <= peer) row_of_.resize(peer + 1, 0);
  if (row_of_[peer] == 0) {
    if (rows_.size() == pieces_.size() * rows_of_piece) return nullptr;
    rows_.push_back({.peer = peer});
    row_of_[peer] = static_cast<std::uint32_t>(rows_.size());
  }
  return &rows_[row_of_[peer] - 1];
}

void PeerStatistics::publish(Peer peer, std::uint32_t generation, const EndpointStats& counts) {
  PeerStatisticsRow* row = row_of(peer);
  if (row == nullptr || (row->generation == generation && row->counts == counts)) return;
  row->generation = generation;
  row->counts = counts;
  row->checksum = checksum_of(*row);
  const std::uint64_t number = row_of_[peer] - 1;
  std::byte* at = pieces_[number / rows_of_piece].data + line_bytes * (1 + number % rows_of_piece);
  arena_->pool().memory().publish_line(at, row);  // pairs with peer_counts
}

namespace {

/// Adds the rows of one object that are plausible.
void add_rows(const arena::Object& object, const coherence::Memory& memory,
              const EndpointTable& table, std::vector<PeerCounts>& found) {
  const std::uint64_t rows = std::min(object.bytes / line_bytes, 1 + rows_of_piece);
  std::vector<PeerStatisticsRow> lines(rows);
  memory.observe_bulk(lines.data(), object.data, line_bytes * rows);
  PeerStatisticsHeader header;
  if (rows == 0) return;
  std::memcpy(&header, lines.data(), sizeof header);
  if (header.magic != peer_statistics_magic || header.checksum != checksum_of(header)) return;
  for (const PeerStatisticsRow& row : lines) {
    if (&row == lines.data() || row.checksum != checksum_of(row) || row.peer >= table.count())
      continue;
    const auto line = table.read(row.peer);
    const bool there = line && line->generation == row.generation && line->open();
    found.push_back({.endpoint = header.slot,
                     .peer = row.peer,
                     .token = header.token,
                     .peer_token = there ? line->token : 0,
                     .counts = row.counts});
  }
}

}  // namespace

std::vector<PeerCounts> peer_counts(arena::Arena& arena) {
  std::vector<PeerCounts> found;
  const auto objects = arena.list();
  const bool ever = std::any_of(objects.begin(), objects.end(),
                                [&](const auto& object) { return object.name == table_name; });
  if (!ever) return found;  // opening the table would make it
  const auto table = EndpointTable::open(arena);
  if (!table) return found;
  for (const arena::Object& object : objects)
    if (object.name.starts_with(peer_statistics_prefix))
      add_rows(object, arena.pool().memory(), *table, found);
  return found;
}

}  // namespace penstock::transport
