#include "transport/endpoint_table.hpp"

#include <algorithm>

#include "base/format.hpp"

namespace penstock::transport {
namespace {

std::uint64_t table_bytes(std::uint64_t count) {
  return line_bytes + count * sizeof(EndpointLine) + count * count * mailbox_word_bytes;
}

/// A torn line is whole soon if the process that claims the slot is alive.
constexpr int looks_at_torn = 16;
/// Liveness checks that a claim makes while there are unused slots.
constexpr std::uint32_t asked_a_claim = 2;

bool is_whole(const EndpointLine& line) {
  return line.generation != 0 && line.checksum == checksum_of(line) &&
         line.state >> 32 == line.generation;
}

}  // namespace

EndpointTable::EndpointTable(arena::Arena& arena, const arena::Object& object, std::uint32_t count)
    : arena_(&arena),
      memory_(arena.pool().memory()),
      lines_(object.data + line_bytes),
      mailboxes_(lines_ + sizeof(EndpointLine) * count),
      count_(count) {}

Result<EndpointTable> EndpointTable::open(arena::Arena& arena) {
  const std::uint32_t count = endpoints_of_pool(arena.pool().bytes());
  auto object = arena.open(table_name);
  if (!object) {
    arena::CreateOptions options;
    options.open_existing = true;  // another process may be first at the same time
    options.zero = true;
    object = arena.create(table_name, table_bytes(count), options);
    if (!object) return unexpected(object.error());
  }
  if (object->bytes != table_bytes(count))
    return fail(ErrorCode::wrong_format,
                "the endpoint table of pool {} has {} bytes, {} were needed: the pool is damaged; "
                "penstock pool create {} --overwrite",
                arena.pool().info().spec, object->bytes, table_bytes(count),
                base::shell_quote(arena.pool().info().spec));
  return EndpointTable(arena, *object, count);
}

std::uint32_t EndpointTable::mailbox_lines(const HighWater& high_water) const {
  const std::uint64_t slots = std::min<std::uint64_t>(high_water.slots, count_);
  return static_cast<std::uint32_t>((slots + words_a_line - 1) / words_a_line);
}

std::optional<EndpointLine> EndpointTable::read(std::uint32_t slot) const {
  if (slot >= count_) return std::nullopt;
  EndpointLine line;
  for (int look = 0; look < looks_at_torn; ++look) {
    memory_.observe_line(&line, line_of(slot));
    if (is_whole(line)) return line;
    if (line.generation == 0) break;
  }
  return std::nullopt;
}

Result<EndpointLine> EndpointTable::read_for_certain(std::uint32_t slot) const {
  if (const auto line = read(slot)) return *line;
  const auto guard = PENSTOCK_TRY(arena_->pool().lock());
  if (const auto line = read(slot)) return *line;
  return fail(ErrorCode::not_found, "endpoint {} of pool {} was never there", slot,
              arena_->pool().info().spec);
}

/// An endpoint that closed in order left its slot free. Finding a killed one takes a liveness
/// check, which costs as much as all the rest: only a few are checked while there are unused slots.
Result<std::uint32_t> EndpointTable::find_slot(const std::vector<EndpointLine>& lines,
                                               HighWater& water) const {
  const auto used = static_cast<std::uint32_t>(lines.size());
  for (std::uint32_t slot = 0; slot < used; ++slot)
    if (!is_whole(lines[slot]) || !lines[slot].open()) return slot;  // torn: its writer died
  const pool::Pool& pool = arena_->pool();
  const std::uint32_t asked = used < count_ ? std::min(asked_a_claim, used) : used;
  for (std::uint32_t i = 0; i < asked; ++i) {
    const auto slot = static_cast<std::uint32_t>(water.looked++ % used);
    if (!pool.alive(lines[slot].token)) return slot;
  }
  if (used < count_) return used;
  return fail(ErrorCode::no_slots,
              "all {} endpoints of pool {} are in use; end jobs that are no longer needed "
              "(penstock ps {}) or make a larger pool: penstock pool create {} --size 2G",
              count_, pool.info().spec, base::shell_quote(pool.info().spec),
              base::shell_quote(pool.info().spec));
}

Result<Address> EndpointTable::claim(std::uint64_t job) {
  pool::Pool& pool = arena_->pool();
  const auto guard = PENSTOCK_TRY(pool.lock());
  HighWater water{};
  memory_.observe_line(&water, high_water_line());
  std::vector<EndpointLine> lines(std::min<std::uint64_t>(water.slots, count_));
  memory_.observe_bulk(lines.data(), lines_, line_bytes * lines.size());
  auto slot = PENSTOCK_TRY(find_slot(lines, water));
  // even after a damaged line the generation must only grow
  const EndpointLine before = slot < lines.size() ? lines[slot] : EndpointLine{};
  const bool closed =
      static_cast<std::uint32_t>(before.state) == static_cast<std::uint32_t>(EndpointState::closed);
  // 32 bits travel in addresses and channel headers; 0 is never a generation
  const std::uint64_t generation = (before.generation + 1) & 0xffffffffu;
  EndpointLine line{};
  line.last_closed = closed ? before.state >> 32 : before.last_closed;
  line.generation = generation == 0 ? 1 : generation;
  line.token = pool.token();
  line.job = job;
  line.state = EndpointLine::pack(line.generation, EndpointState::open);
  line.checksum = checksum_of(line);
  water.slots = std::max<std::uint64_t>(water.slots, slot + 1);
  memory_.publish_line(lines_ - line_bytes, &water);
  memory_.publish_line(line_of(slot), &line);
  // Releasing the lock orders both stores before any process can learn the address.
  return Address{pool.info().id, job, slot, static_cast<std::uint32_t>(line.generation)};
}

/// Changes one word by a store past the cache: readers find the line whole at any time.
Result<void> EndpointTable::change(const Address& address, std::uint64_t EndpointLine::*word,
                                   std::uint64_t value) {
  const auto guard = PENSTOCK_TRY(arena_->pool().lock());
  const auto line = read(address.slot);
  if (!line || line->generation != address.generation) return {};
  auto* at = reinterpret_cast<EndpointLine*>(line_of(address.slot));
  memory_.publish_word(&(at->*word), value);
  return {};
}

Result<void> EndpointTable::set_user_word(const Address& address, std::uint64_t user_word) {
  return change(address, &EndpointLine::user_word, user_word);
}

void EndpointTable::release(const Address& address) {
  // if the lock is not available, the slot is freed when the process has ended
  (void)change(address, &EndpointLine::state,
               EndpointLine::pack(address.generation, EndpointState::closed));
}

}  // namespace penstock::transport
