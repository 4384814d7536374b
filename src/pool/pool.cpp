// An attachment: joining, leaving, and the objects that it holds.
//
// Joining, in order: open, check and map the devices; take the host lock; find the node's number,
// which makes this process the node's attaching process; take a slot (slot_search.hpp); keep the
// lease; release the host lock.
#include <atomic>
#include <utility>

#include "base/format.hpp"
#include "device/placement.hpp"
#include "pool/impl.hpp"
#include "pool/lease.hpp"
#include "pool/process_end.hpp"
#include "pool/slot_search.hpp"

namespace penstock::pool {

namespace {

Result<void> check_node(const AttachOptions& options) {
  if (options.emulated_node.value_or(0) <= last_emulated_node) return {};
  return fail(ErrorCode::invalid_argument,
              "emulated node {} was asked for, the last that can be is {}: export PENSTOCK_NODE=0",
              *options.emulated_node, last_emulated_node);
}

}  // namespace

Result<std::unique_ptr<Pool>> Pool::attach(const AttachOptions& options) {
  auto host = PENSTOCK_TRY(this_host());
  auto process = PENSTOCK_TRY(this_process());
  return attach_as(options, Caller{host, process});
}

Result<std::unique_ptr<Pool>> attach_as(const AttachOptions& options, const Caller& caller) {
  auto lease_ns = PENSTOCK_TRY(lease_from_environment());
  PENSTOCK_TRY(check_node(options));
  auto device = PENSTOCK_TRY(
      device::Device::open({.spec = options.spec,
                            .mode = options.mode,
                            .flush = options.flush,
                            .node = options.emulated_node ? *options.emulated_node + 1 : 0,
                            .read_only = options.observer},
                           lay_out));
  Caller self = caller;
  self.process.pool_file = device.file();
  auto impl = std::make_unique<Pool::Impl>(std::move(device), self, options, lease_ns);
  if (!options.observer) {
    PENSTOCK_TRY(impl->join());
  }
  return std::make_unique<Pool>(std::move(impl));
}

Result<void> Pool::Impl::join() {
  const auto host_locked = PENSTOCK_TRY(lock.lock_host());
  liveness.judge_by([this](std::uint64_t dead) {
    tables.verdicts.publish(dead, own.generation() != 0 ? own.token() : attaching_bit);
  });
  const NodeTable::Joiner joiner{
      .host = own.self().host,
      .process = own.self().process,
      .emulated_node = own.options().emulated_node,
      .processes = tables.processes,
      .attaching = tables.attaching,
      .liveness = liveness,
      .heartbeat = own.heartbeat(),
      .exit_if_declared_dead = [this](std::uint64_t as) { own.exit_if_declared_dead(as); },
      .must_flush = [this](std::uint32_t node) { return tables.flushes.times().deaths[node] != 0; },
      .spec = device.spec()};
  const auto seat = PENSTOCK_TRY(tables.nodes.join(joiner));
  own.set_node(seat.node);
  SlotSearch search(device, tables, liveness, own, lock, reclaim);
  if (auto taken = search.take(seat.visit); !taken) {
    own.heartbeat().reset();
    seat.visit->leave();
    return taken;
  }
  lock.open();
  own.keep([this] {
    lock.repair_line();
    chores.run();
  });
  seat.visit->leave();
  return {};
}

namespace {

std::atomic<bool> stays_mapped{false};

}  // namespace

void stay_mapped() {
  stays_mapped = true;
}

Pool::Pool(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Pool::~Pool() {
  if (impl_->own.options().observer) return;
  if (!attached_here()) {
    // a forked child: slot, lock and heartbeat thread belong to the parent
    [[maybe_unused]] Impl* leaked = impl_.release();
    return;
  }
  impl_->own.leave();
  if (!stays_mapped) return;
  [[maybe_unused]] Impl* leaked = impl_.release();
}

bool Pool::attached_here() const {
  return impl_->device.opened_here();
}
const Info& Pool::info() const {
  return impl_->info;
}
const device::Device& Pool::device() const {
  return impl_->device;
}
const coherence::Memory& Pool::memory() const {
  return impl_->device.memory();
}
std::byte* Pool::base() const {
  return impl_->device.base();
}
std::uint64_t Pool::bytes() const {
  return impl_->device.bytes();
}
void* Pool::at(std::uint64_t offset, std::uint64_t bytes) const {
  return impl_->device.at(offset, bytes);
}
std::optional<std::uint64_t> Pool::offset_of(const void* address) const {
  return impl_->device.offset_of(address);
}
device::PoolMappings& Pool::mappings() const {
  return impl_->mappings;
}
const Members& Pool::members() const {
  return impl_->members;
}
Reclaim& Pool::reclaim() const {
  return impl_->reclaim;
}

std::uint32_t Pool::slot() const {
  return impl_->own.slot();
}
std::uint64_t Pool::generation() const {
  return impl_->own.generation();
}
std::uint32_t Pool::node() const {
  return impl_->own.node();
}
std::uint64_t Pool::token() const {
  return impl_->own.token();
}
std::uint32_t Pool::own_part(std::uint64_t n) const {
  const AttachOptions& options = impl_->own.options();
  const std::uint32_t unnumbered =
      options.rank >= 0 ? static_cast<std::uint32_t>(options.rank) : slot();
  return device::part_for(options.seat.value_or(unnumbered), node(), n, info().striping.parts);
}
bool Pool::alive(std::uint64_t token) const {
  return impl_->members.alive(token);
}
std::string Pool::describe(std::uint64_t token) const {
  return impl_->members.describe(token);
}
std::uint64_t Pool::confirm() const {
  return impl_->own.confirm();
}
void Pool::publish_stats(const ProcessStats& stats) {
  impl_->own.publish_stats(stats);
}
void Pool::publish_activity(std::string_view text) {
  impl_->own.publish_activity(text);
}
void Pool::on_beat(const void* owner, std::function<void()> chore) {
  impl_->chores.set(owner, std::move(chore));
}

Result<Pool::Guard> Pool::lock(std::uint64_t timeout_ns, const std::function<bool()>& unless) {
  return impl_->lock.lock(timeout_ns, unless);
}

}  // namespace penstock::pool
