#include "transport/endpoint_table.hpp"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "base/checksum.hpp"
#include "base/format.hpp"

namespace penstock::transport {
namespace {

/// A torn line is whole again soon if the claiming process is alive.
constexpr int looks_at_torn = 16;
/// Lines that a claim reads together in search of a free slot.
constexpr std::uint32_t lines_a_look = 16;
/// Liveness checks among them in the first round, while others may be free.
constexpr std::uint32_t asked_a_look = 2;

/// The attachments of this process whose own slot is in use. Process-wide, because two threads may
/// open endpoints at the same time, and only one gets the slot.
class OwnSlots {
 public:
  bool take(const pool::Pool& pool) {
    const std::lock_guard hold(mutex_);
    return taken_.insert({&pool, pool.token()}).second;
  }
  void give_back(const pool::Pool& pool) {
    const std::lock_guard hold(mutex_);
    taken_.erase({&pool, pool.token()});
  }
  /// Endpoints may close after the destructors of static objects.
  static OwnSlots& instance() {
    static auto& slots = *new OwnSlots;
    return slots;
  }

 private:
  std::mutex mutex_;
  std::set<std::pair<const pool::Pool*, std::uint64_t>> taken_;
};

Error other_format(const pool::Info& info, const std::string& found) {
  return {ErrorCode::wrong_format,
          fmt::format("the endpoint table of pool {} {}: penstock pool create {} --ranks {} "
                      "--overwrite",
                      info.spec, found, base::shell_quote(info.spec), info.max_processes)};
}

/// No group has a tile yet.
std::vector<std::byte> new_head(TableHead head, const TableLayout& layout) {
  head.checksum = checksum_of(head);
  TilesState none{.number = 1, .piece_offset = head.body_offset};
  none.checksum = checksum_of(none, head.key);
  const TilesStates both{none, none};
  std::vector<std::byte> bytes(layout.head_bytes());
  std::memcpy(bytes.data(), &head, sizeof head);
  for (std::uint32_t group = 0; group < layout.groups(); ++group)
    std::memcpy(bytes.data() + sizeof(TableHeadLines) + sizeof both * group, &both, sizeof both);
  return bytes;
}

/// Makes the head last and atomically: a reader finds the complete table or none.
Result<arena::Object> make_table(arena::Arena& arena) {
  const pool::Info& info = arena.pool().info();
  const TableLayout layout(endpoints_of_pool(info.max_processes));
  // another process may do the same concurrently
  const auto body = PENSTOCK_TRY(
      arena.create(table_body_name, layout.bytes(),
                   {.alignment = channel_alignment, .zero = false, .open_existing = true}));
  const auto locks =
      PENSTOCK_TRY(arena.create(table_locks_name, layout.locks_bytes(), {.open_existing = true}));
  const std::uint64_t unique[] = {info.id, body.generation, body.offset};
  const auto bytes = new_head({.magic = table_magic,
                               .version = table_version,
                               .processes = info.max_processes,
                               .slots = layout.slots(),
                               .body_offset = body.offset,
                               .body_bytes = body.bytes,
                               .key = base::xxh64(unique, sizeof unique, table_magic),
                               .locks_offset = locks.offset},
                              layout);
  return arena.create(table_name, bytes.size(),
                      {.zero = false, .open_existing = true, .contents = bytes.data()});
}

Result<void> check(const TableHead& head, const arena::Object& object, const pool::Pool& pool) {
  const pool::Info& info = pool.info();
  const bool known = head.magic == table_magic;
  if (!known || head.version != table_version)
    return unexpected(other_format(
        info, fmt::format("was made by another version of Penstock (its form is {}, this one's is "
                          "{}), so make the pool anew",
                          known ? fmt::format("{}", head.version) : "1, or it is damaged",
                          table_version)));
  const TableLayout layout(endpoints_of_pool(info.max_processes));
  const bool fits = head.checksum == checksum_of(head) && head.processes == info.max_processes &&
                    head.slots == layout.slots() && head.body_bytes == layout.bytes() &&
                    head.body_offset % channel_alignment == 0 &&
                    pool.at(head.body_offset, head.body_bytes) != nullptr &&
                    head.locks_offset % line_bytes == 0 &&
                    pool.at(head.locks_offset, layout.locks_bytes()) != nullptr &&
                    object.bytes == layout.head_bytes();
  if (fits) return {};
  return unexpected(other_format(
      info, fmt::format("is damaged (it says {} endpoints for {} processes, the pool has room for "
                        "{}), so make the pool anew",
                        head.slots, head.processes, info.max_processes)));
}

}  // namespace

EndpointTable::EndpointTable(arena::Arena& arena, std::byte* head, const TableHead& checked_head)
    : arena_(&arena),
      memory_(arena.pool().memory()),
      head_(reinterpret_cast<TableHeadLines*>(head)),
      body_(arena.pool().base() + checked_head.body_offset),
      key_(checked_head.key),
      processes_(checked_head.processes),
      tiles_(arena, head, checked_head) {}

Result<EndpointTable> EndpointTable::open(arena::Arena& arena) {
  auto object = arena.open(table_name);
  if (!object && object.error().code == ErrorCode::not_found) object = make_table(arena);
  if (!object && object.error().code == ErrorCode::already_exists) object = arena.open(table_name);
  if (!object) return unexpected(object.error());
  TableHead head{};
  if (object->bytes >= sizeof head)
    arena.pool().memory().observe_line(&head, object->data);  // pairs with make_table()
  PENSTOCK_TRY(check(head, *object, arena.pool()));
  return EndpointTable(arena, object->data, head);
}

bool EndpointTable::is_whole(const EndpointLine& line, std::uint32_t slot) const {
  return line.generation != 0 && line.checksum == checksum_of(line, key_, slot) &&
         line.state >> 32 == line.generation;
}

std::optional<EndpointLine> EndpointTable::read(std::uint32_t slot) const {
  if (slot >= count()) return std::nullopt;
  EndpointLine line;
  for (int look = 0; look < looks_at_torn; ++look) {
    memory_.observe_line(&line, line_of(slot));
    if (is_whole(line, slot)) return line;
    if (line.generation == 0) break;
  }
  return std::nullopt;
}

std::vector<std::optional<EndpointLine>> EndpointTable::read_all() const {
  std::vector<EndpointLine> lines(count());
  memory_.observe_bulk(lines.data(), line_of(0), line_bytes * lines.size());
  std::vector<std::optional<EndpointLine>> checked(lines.size());
  for (std::uint32_t slot = 0; slot < checked.size(); ++slot)
    if (is_whole(lines[slot], slot)) checked[slot] = lines[slot];
  return checked;
}

std::vector<std::optional<EndpointLine>> EndpointTable::load_of_this_node(
    const std::vector<std::uint32_t>& slots) const {
  std::vector<std::optional<EndpointLine>> lines(slots.size());
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i] >= count()) continue;
    EndpointLine line;
    memory_.load_line(&line, line_of(slots[i]));
    if (is_whole(line, slots[i])) lines[i] = line;
  }
  return lines;
}

// ---- claiming ----------------------------------------------------------------------------------

/// A free slot among these lines, or one whose process is dead. At most `asked` of them get a
/// liveness check.
std::optional<std::uint32_t> EndpointTable::find_free(std::uint32_t first, std::uint32_t number,
                                                      std::uint32_t asked) const {
  std::vector<EndpointLine> lines(number);
  memory_.observe_bulk(lines.data(), line_of(first), line_bytes * number);
  for (std::uint32_t i = 0; i < number; ++i)
    if (!is_whole(lines[i], first + i) || !lines[i].open()) return first + i;
  for (std::uint32_t i = 0; i < std::min(asked, number); ++i)
    if (!arena_->pool().alive(lines[i].token)) return first + i;
  return std::nullopt;
}

/// Searches the slots beyond the processes' own ones. Begins at the slot that was closed last, or
/// after the one that was claimed last.
Result<std::uint32_t> EndpointTable::find_slot() const {
  const std::uint64_t hint = memory_.observe_word(head_->hint);
  const std::uint32_t first = processes_, end = count();
  std::uint32_t at = hint >= first && hint < end ? static_cast<std::uint32_t>(hint) : first;
  const std::uint32_t looks = (end - first) / lines_a_look + 2;
  for (const std::uint32_t asked : {asked_a_look, lines_a_look})
    for (std::uint32_t look = 0; look < looks; ++look) {
      const std::uint32_t number = std::min(lines_a_look, end - at);
      if (const auto slot = find_free(at, number, asked)) return *slot;
      at = at + number == end ? first : at + number;
    }
  const pool::Info& info = arena_->pool().info();
  return fail(ErrorCode::no_slots,
              "all {} endpoints that pool {} has beyond the first of each process are in use; end "
              "jobs that are no longer needed (penstock ps {}) or make the pool anew for more: "
              "penstock pool create {} --ranks {} --overwrite",
              end - first, info.spec, base::shell_quote(info.spec), base::shell_quote(info.spec),
              std::min<std::uint64_t>(2ull * info.max_processes, max_endpoints));
}

Result<Address> EndpointTable::claim(std::uint64_t job) {
  pool::Pool& pool = arena_->pool();
  if (pool.slot() < processes_ && OwnSlots::instance().take(pool))
    return claim_slot(pool.slot(), job);
  const auto guard = PENSTOCK_TRY(pool.lock());
  const std::uint32_t slot = PENSTOCK_TRY(find_slot());
  const Address address = claim_slot(slot, job);
  publish_hint(slot + 1);
  return address;
}

/// Loads a line that this process may store to, then checks that this process was not declared dead
/// meanwhile. A process that was stopped for long may have lost its slot; it ends here.
EndpointLine EndpointTable::load_own_line(std::uint32_t slot) const {
  EndpointLine line;
  memory_.observe_line(&line, line_of(slot));
  arena_->pool().confirm();
  return line;
}

/// No other process claims the slot: it is the process's own, or the caller holds the pool's lock.
Address EndpointTable::claim_slot(std::uint32_t slot, std::uint64_t job) {
  pool::Pool& pool = arena_->pool();
  EndpointLine before = load_own_line(slot);
  if (!is_whole(before, slot)) {  // it was never used, or its claimer died
    const std::vector<std::byte> zeros(tiles_.layout().box_bytes());
    memory_.publish_bulk(tiles_.box(slot), zeros.data(), zeros.size());
    memory_.store_fence();  // a whole line implies a valid box
    before = load_own_line(slot);
  }
  // Generations grow even after a damaged line. Addresses and channel headers hold 32 bits; 0 is
  // never a generation.
  const std::uint64_t generation = (before.generation + 1) & 0xffffffffu;
  EndpointLine line{};
  line.closed_from = before.closed_from;
  line.closed_to = before.closed_to;
  line.supply = EndpointLine::supply_word(pool.own_part(), before.supplied());
  if (static_cast<std::uint32_t>(before.state) ==
      static_cast<std::uint32_t>(EndpointState::closed)) {
    line.closed_to = static_cast<std::uint32_t>(before.state >> 32);
    const bool follows = before.closed_to != 0 && before.closed_to + 1 == line.closed_to;
    if (!follows) line.closed_from = line.closed_to;
  }
  line.generation = generation == 0 ? 1 : generation;
  line.token = pool.token();
  line.job = job;
  line.state = EndpointLine::pack(line.generation, EndpointState::open);
  line.checksum = checksum_of(line, key_, slot);
  tiles_.clear_lock_line(slot);  // before others find the slot in use
  pool.confirm();
  memory_.publish_line(line_of(slot), &line);
  memory_.full_fence();  // before any process can learn the address
  return Address{pool.info().id, job, slot, static_cast<std::uint32_t>(line.generation)};
}

/// Many processes write the hint. Any value is good: the search checks the slots themselves.
void EndpointTable::publish_hint(std::uint32_t slot) {
  memory_.publish_word(head_->hint, slot);
}

/// Changes one word by a store past the cache, so readers always find the line whole. While this
/// process lives, no other process writes the line.
void EndpointTable::change(const Address& address, std::uint64_t EndpointLine::*word,
                           std::uint64_t value) {
  const EndpointLine line = load_own_line(address.slot);
  if (!is_whole(line, address.slot) || line.generation != address.generation) return;
  auto* at = reinterpret_cast<EndpointLine*>(line_of(address.slot));
  memory_.publish_word(&(at->*word), value);
}

void EndpointTable::set_user_word(const Address& address, std::uint64_t user_word) {
  change(address, &EndpointLine::user_word, user_word);
  memory_.full_fence();
}

void EndpointTable::set_supplied(const Address& address) {
  change(address, &EndpointLine::supply,
         EndpointLine::supply_word(arena_->pool().own_part(), address.generation));
}

void EndpointTable::release(const Address& address) {
  memory_.store_fence();  // earlier publishes, such as credits, come first
  change(address, &EndpointLine::state,
         EndpointLine::pack(address.generation, EndpointState::closed));
  if (address.slot >= processes_) publish_hint(address.slot);
  memory_.store_fence();
  if (address.slot < processes_) OwnSlots::instance().give_back(arena_->pool());
}

// ---- mailboxes ---------------------------------------------------------------------------------

std::byte* EndpointTable::word_in(std::uint64_t entry, std::uint32_t sender) const {
  return tiles_.at(TileEntry::offset(entry)) + mailbox_word_bytes * (sender % senders_a_tile);
}

Result<MailboxWords> EndpointTable::words(std::uint32_t owner, std::uint32_t sender,
                                          std::uint64_t timeout_ns) {
  const auto entry = PENSTOCK_TRY(tiles_.find_or_make(owner, sender, timeout_ns));
  return MailboxWords{word_in(entry, sender), tiles_.box(owner) + TableLayout::bell};
}

std::byte* EndpointTable::find_word(std::uint32_t owner, std::uint32_t sender) const {
  const auto entry = tiles_.find({owner, sender / senders_a_tile});
  return entry ? word_in(*entry, sender) : nullptr;
}

}  // namespace penstock::transport
