#include "transport/endpoint_table.hpp"

#include <algorithm>

#include "base/format.hpp"

namespace penstock::transport {
namespace {

std::uint64_t table_bytes(std::uint64_t count) {
  return 64 + count * 64 + count * count * 8;
}

}  // namespace

EndpointTable::EndpointTable(arena::Arena& arena, const arena::Object& object, std::uint32_t count)
    : arena_(&arena),
      memory_(arena.pool().memory()),
      lines_(object.data + 64),
      mailboxes_(object.data + 64 + 64ull * count),
      count_(count) {}

Result<EndpointTable> EndpointTable::open(arena::Arena& arena) {
  const std::uint32_t count = endpoints_of_pool(arena.pool().bytes());
  auto object = arena.open(table_name);
  if (!object) {
    arena::CreateOptions options;
    options.open_existing = true;  // somebody else may be as early as we are
    options.zero = true;
    object = arena.create(table_name, table_bytes(count), options);
    if (!object) return unexpected(object.error());
  }
  if (object->bytes != table_bytes(count))
    return fail(Code::wrong_format,
                "the endpoint table of pool {} has {} bytes, {} were needed: the pool is damaged; "
                "penstock pool create {} --overwrite",
                arena.pool().info().spec, object->bytes, table_bytes(count),
                arena.pool().info().spec);
  return EndpointTable(arena, *object, count);
}

std::uint32_t EndpointTable::mailbox_lines(const HighWater& high_water) const {
  const std::uint64_t slots = std::min<std::uint64_t>(high_water.slots, count_);
  return static_cast<std::uint32_t>((slots + 7) / 8);
}

std::optional<EndpointLine> EndpointTable::read(std::uint32_t slot) const {
  if (slot >= count_) return std::nullopt;
  EndpointLine line;
  memory_.observe_line(&line, lines_ + 64ull * slot);
  if (line.generation == 0 || line.check != check_of(line)) return std::nullopt;
  return line;
}

Result<std::uint32_t> EndpointTable::find_slot() const {
  pool::Pool& pool = arena_->pool();
  for (std::uint32_t slot = 0; slot < count_; ++slot) {
    const auto line = read(slot);
    if (!line || line->state != static_cast<std::uint32_t>(EndpointState::open)) return slot;
    if (!pool.alive(line->token)) return slot;
  }
  return fail(Code::no_slots,
              "all {} endpoints of pool {} are in use; end jobs that are no longer needed "
              "(penstock ps {}) or make a larger pool: penstock pool create {} --size 2G",
              count_, pool.info().spec, pool.info().spec, pool.info().spec);
}

void EndpointTable::raise_high_water(std::uint32_t slot) {
  HighWater high_water{};
  memory_.observe_line(&high_water, high_water_line());
  if (high_water.slots > slot) return;
  high_water = {};
  high_water.slots = slot + 1;
  memory_.publish_line(lines_ - 64, &high_water);
}

Result<Address> EndpointTable::claim(std::uint64_t job) {
  pool::Pool& pool = arena_->pool();
  auto guard = pool.lock();
  if (!guard) return unexpected(guard.error());
  auto slot = find_slot();
  if (!slot) return unexpected(slot.error());
  EndpointLine line;
  // find_slot() has just fetched it; also of a damaged line the generation only goes on
  memory_.load_line(&line, lines_ + 64ull * *slot);
  // 32 bits travel in addresses and channel headers; 0 is never a generation
  const std::uint64_t generation = (line.generation + 1) & 0xffffffffu;
  const bool closed = line.state == static_cast<std::uint32_t>(EndpointState::closed);
  const std::uint64_t last_closed = closed ? line.generation : line.last_closed;
  line = {};
  line.last_closed = last_closed;
  line.generation = generation == 0 ? 1 : generation;
  line.token = pool.token();
  line.job = job;
  line.state = static_cast<std::uint32_t>(EndpointState::open);
  line.check = check_of(line);
  raise_high_water(*slot);
  memory_.publish_line(lines_ + 64ull * *slot, &line);
  // Letting go of the lock orders both before anybody can be told the address.
  return Address{pool.info().id, job, *slot, static_cast<std::uint32_t>(line.generation)};
}

void EndpointTable::change(const Address& address, void (*what)(EndpointLine&, std::uint64_t),
                           std::uint64_t value) {
  auto line = read(address.slot);
  if (!line || line->generation != address.generation) return;
  what(*line, value);
  line->check = check_of(*line);
  memory_.publish_line(lines_ + 64ull * address.slot, &*line);
}

Result<void> EndpointTable::set_notice(const Address& address, std::uint64_t notice) {
  auto guard = arena_->pool().lock();
  if (!guard) return unexpected(guard.error());
  change(
      address, [](EndpointLine& line, std::uint64_t value) { line.notice = value; }, notice);
  return {};
}

void EndpointTable::release(const Address& address) {
  auto guard = arena_->pool().lock();
  if (!guard) return;  // then the slot is free when the process has ended
  change(
      address,
      [](EndpointLine& line, std::uint64_t value) {
        line.state = static_cast<std::uint32_t>(value);
        line.notice = 0;
      },
      static_cast<std::uint64_t>(EndpointState::closed));
}

}  // namespace penstock::transport
