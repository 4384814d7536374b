#include "pool/process_table.hpp"

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "pool/checksummed_line.hpp"

namespace penstock::pool {

namespace {

/// Tokens hold 48 bits of the generation.
constexpr std::uint64_t greatest_generation = std::uint64_t{1} << 47;

std::string text_of(const char* text, std::size_t capacity) {
  return base::printable(std::string(text, ::strnlen(text, capacity)));
}

}  // namespace

ProcessTable::ProcessTable(const coherence::Memory& memory, std::byte* base,
                           const device::Superblock& s)
    : memory_(memory),
      base_(base),
      slots_(s.max_processes),
      nodes_(s.max_nodes),
      states_(s.states_offset),
      details_(s.details_offset),
      leases_(s.leases_offset),
      stats_(s.stats_offset),
      activities_(s.activities_offset),
      blocks_(s.blocks_offset),
      slots_a_block_(block_slots_of(s.max_processes, s.max_nodes)) {}

SlotView ProcessTable::load_state(std::uint32_t slot) const {
  SlotView view{.slot = slot};
  const auto line =
      load_checksummed_line<StateLine>(memory_, base_, place<StateLine>(states_, slot), &view.line);
  view.whole = line && line->generation <= greatest_generation && line->node < nodes_ &&
               line->state <= static_cast<std::uint32_t>(SlotState::left);
  return view;
}

SlotView ProcessTable::state(std::uint32_t slot) const {
  if (slot >= slots_) return SlotView{.slot = slot};
  memory_.invalidate(base_ + place<StateLine>(states_, slot), sizeof(StateLine));
  memory_.load_fence();
  return load_state(slot);
}

std::vector<SlotView> ProcessTable::states(std::uint32_t first, std::uint32_t end) const {
  std::vector<SlotView> views;
  memory_.invalidate(base_ + place<StateLine>(states_, first),
                     std::uint64_t{end - first} * sizeof(StateLine));
  memory_.load_fence();
  for (std::uint32_t slot = first; slot < end; ++slot) views.push_back(load_state(slot));
  return views;
}

/// True if none of `count` blocks was ever taken. The caller has invalidated their lines.
bool ProcessTable::fresh(std::uint32_t block, std::uint32_t count) const {
  for (std::uint32_t i = 0; i < count; ++i) {
    BlockLine line;
    memory_.load_line(&line, base_ + place_of_block(block + i));
    constexpr BlockLine nothing;
    if (std::memcmp(&line, &nothing, sizeof line) != 0) return false;
  }
  return true;
}

std::vector<SlotView> ProcessTable::used() const {
  constexpr std::uint32_t batch = 64;  // slots
  const std::uint32_t blocks = (slots_ + slots_a_block_ - 1) / slots_a_block_;
  const std::uint32_t step = std::max(batch / slots_a_block_, 1u);
  std::vector<SlotView> views;
  for (std::uint32_t block = 0; block < blocks; block += step) {
    const std::uint32_t count = std::min(step, blocks - block);
    memory_.invalidate(base_ + place_of_block(block), std::uint64_t{count} * sizeof(BlockLine));
    const std::uint32_t first = block * slots_a_block_;
    for (SlotView& view : states(first, std::min(first + count * slots_a_block_, slots_))) {
      if (was_taken(view)) views.push_back(view);
    }
    if (fresh(block, count)) break;
  }
  return views;
}

std::optional<OriginLine> ProcessTable::origin(std::uint32_t slot) const {
  return observe_checksummed_line<OriginLine>(memory_, base_, place<DetailLines>(details_, slot));
}

std::optional<LeaseLine> ProcessTable::lease(std::uint32_t slot) const {
  return observe_checksummed_line<LeaseLine>(memory_, base_, place<LeaseLine>(leases_, slot));
}

std::optional<std::uint64_t> ProcessTable::beat(std::uint32_t slot,
                                                std::uint64_t generation) const {
  const auto line = lease(slot);
  if (!line || line->generation != generation) return std::nullopt;
  return line->beat;
}

std::uint64_t ProcessTable::generation(const SlotView& view) const {
  if (view.whole) return view.line.generation;
  return beating_generation(view.slot).value_or(view.line.generation);
}

std::optional<std::uint64_t> ProcessTable::beating_generation(std::uint32_t slot) const {
  const auto line = lease(slot);
  if (!line) return std::nullopt;
  return line->generation;
}

std::uint64_t ProcessTable::mapped_at(std::uint32_t slot, std::uint64_t generation) const {
  const auto line = lease(slot);
  return line && line->generation == generation ? line->mapped_at : 0;
}

std::optional<std::uint64_t> ProcessTable::shares_with(const SlotView& view) const {
  constexpr int looks = 4;  // its process may be writing the line
  for (int look = 0; look < looks; ++look) {
    const auto line = lease(view.slot);
    if (line && (!view.whole || line->generation == view.line.generation)) return line->shares_with;
  }
  return std::nullopt;
}

bool ProcessTable::cached_as_attached(std::uint32_t slot, std::uint64_t generation) const {
  if (slot >= slots_) return false;
  StateLine line;
  memory_.load_line(&line, base_ + place<StateLine>(states_, slot));
  return line.generation == generation &&
         line.state == static_cast<std::uint32_t>(SlotState::attached);
}

std::string ProcessTable::job(std::uint32_t slot) const {
  return read_text(place<DetailLines>(details_, slot) + offsetof(DetailLines, job), 2);
}

ProcessRecord ProcessTable::record(const SlotView& view) const {
  const std::uint32_t slot = view.slot;
  ProcessRecord record;
  record.slot = slot;
  record.generation = view.line.generation;
  record.node = view.line.node;
  record.pid = static_cast<std::int64_t>(view.line.pid);
  record.start_time = view.line.start_time;
  record.scope = view.line.scope;
  record.attached_wall_ns = view.line.attached_wall_ns;
  record.rank = view.line.rank;
  record.attached = view.line.state == static_cast<std::uint32_t>(SlotState::attached);
  if (const auto line = lease(slot); line && line->generation == record.generation) {
    record.lease_beat = line->beat;
    record.device_reads = line->device_reads;
    record.beat_ns = line->at_ns;
  }
  const std::uint64_t details = place<DetailLines>(details_, slot);
  if (const auto line = origin(slot)) {
    record.boot_id = format_uuid(line->boot_id);
    record.program = text_of(line->program, sizeof line->program);
  }
  record.host = read_text(details + offsetof(DetailLines, host), 1);
  record.job = job(slot);
  const auto stats =
      observe_checksummed_line<StatsLine>(memory_, base_, place<StatsLine>(stats_, slot));
  if (stats && stats->generation == record.generation) {
    record.messages_sent = stats->messages_sent;
    record.bytes_sent = stats->bytes_sent;
    record.messages_received = stats->messages_received;
    record.bytes_received = stats->bytes_received;
  }
  record.activity = read_text(place<ActivityLines>(activities_, slot), 3);
  return record;
}

StateLine ProcessTable::take(const SlotView& before, const Entry& entry,
                             const std::function<void()>& confirm) const {
  const std::uint32_t slot = before.slot;
  StateLine line = before.line;
  // the state may be a late store of an earlier owner
  const std::uint64_t last = std::max(generation(before), beating_generation(slot).value_or(0));
  line.generation = last < greatest_generation ? last + 1 : 1;
  publish_details(slot, entry, confirm);
  confirm();
  publish_beat(slot, line.generation, 1, 0);
  publish_stats(slot, line.generation, ProcessStats{});
  publish_activity(slot, "");  // its fence orders all of these before the state

  line.state = static_cast<std::uint32_t>(SlotState::attached);
  line.node = entry.node;
  line.pid = static_cast<std::uint32_t>(entry.process.pid);
  line.file = entry.process.pool_file;
  line.start_time = entry.process.start_time;
  line.scope = entry.process.scope;
  line.attached_wall_ns = base::wall_ns();
  line.rank = entry.rank;
  line.host = host_word(entry.host.boot_id);
  confirm();
  publish_state(slot, line);
  return line;
}

void ProcessTable::publish_details(std::uint32_t slot, const Entry& entry,
                                   const std::function<void()>& confirm) const {
  const std::uint64_t details = place<DetailLines>(details_, slot);
  OriginLine origin{.boot_id = entry.host.boot_id};
  entry.process.program.copy(origin.program, sizeof origin.program);
  confirm();
  publish_checksummed_line(memory_, base_, details, origin);
  confirm();
  publish_text(details + offsetof(DetailLines, host), 1, entry.host.host);
  confirm();
  publish_text(details + offsetof(DetailLines, job), 2, entry.job);
}

void ProcessTable::publish_state(std::uint32_t slot, const StateLine& line) const {
  publish_checksummed_line(memory_, base_, place<StateLine>(states_, slot), line);
  memory_.store_fence();
}

void ProcessTable::set_state(std::uint32_t slot, StateLine line, SlotState new_state) const {
  line.state = static_cast<std::uint32_t>(new_state);
  publish_state(slot, line);
}

void ProcessTable::publish_beat(std::uint32_t slot, std::uint64_t generation, std::uint64_t beat,
                                std::uint64_t shares_with) const {
  publish_checksummed_line(memory_, base_, place<LeaseLine>(leases_, slot),
                           LeaseLine{.generation = generation,
                                     .beat = beat,
                                     .mapped_at = reinterpret_cast<std::uintptr_t>(base_),
                                     .device_reads = memory_.device_reads(),
                                     .at_ns = base::now_ns(),
                                     .shares_with = shares_with});
}

void ProcessTable::publish_stats(std::uint32_t slot, std::uint64_t generation,
                                 const ProcessStats& stats) const {
  publish_checksummed_line(memory_, base_, place<StatsLine>(stats_, slot),
                           StatsLine{.generation = generation,
                                     .messages_sent = stats.messages_sent,
                                     .bytes_sent = stats.bytes_sent,
                                     .messages_received = stats.messages_received,
                                     .bytes_received = stats.bytes_received});
  memory_.store_fence();
}

void ProcessTable::publish_activity(std::uint32_t slot, std::string_view text) const {
  publish_text(place<ActivityLines>(activities_, slot), 3, text);
  memory_.store_fence();
}

void ProcessTable::publish_text(std::uint64_t place, std::size_t lines,
                                std::string_view text) const {
  for (std::size_t i = 0; i < lines; ++i) {
    TextLine line;
    const std::size_t begin = i * sizeof line.text;
    if (begin < text.size()) text.substr(begin).copy(line.text, sizeof line.text);
    publish_checksummed_line(memory_, base_, place + i * sizeof line, line);
  }
}

std::string ProcessTable::read_text(std::uint64_t place, std::size_t lines) const {
  std::string text;
  for (std::size_t i = 0; i < lines; ++i) {
    const auto line =
        observe_checksummed_line<TextLine>(memory_, base_, place + i * sizeof(TextLine));
    if (!line) break;
    const std::string here = text_of(line->text, sizeof line->text);
    text += here;
    if (here.size() < sizeof line->text) break;
  }
  return text;
}

}  // namespace penstock::pool
