#include "nccl/ways.hpp"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/format.hpp"
#include "base/log.hpp"
#include "nccl/outcome.hpp"

namespace penstock::nccl {

namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t min_slot = 128 << 10, max_slot = 1 << 20;
constexpr std::uint64_t pool_part = 16;  ///< of the free space, for the slots of all ranks

/// The failed line of a rank that has given up.
constexpr std::uint64_t gave_up = 0x70752065766167;

/// The same slots serve as long as the communicator lives: shorter ones in a fuller pool.
std::uint64_t slot_bytes_for(const penstock_pool_info_t& info, std::uint64_t ranks) {
  const std::uint64_t left =
      info.object_bytes_total - std::min(info.object_bytes_used, info.object_bytes_total);
  const std::uint64_t wanted = left / pool_part / (ranks * (ranks - 1) * Way::slots) / page * page;
  return wanted < min_slot ? 0 : std::min(wanted, max_slot);
}

}  // namespace

Result Way::publish(std::uint64_t chunk, std::uint64_t bytes) const {
  if (!is_apart) return success;
  return outcome(penstock_publish(pool, slot(chunk), bytes), "ncclSend");
}

Result Way::observe(std::uint64_t chunk, std::uint64_t bytes) const {
  if (!is_apart) return success;
  return outcome(penstock_observe(pool, slot(chunk), bytes), "ncclRecv");
}

bool Way::has_failed() const {
  std::uint64_t found = 0;
  if (penstock_read(pool, &found, failed, sizeof found) != PENSTOCK_OK || found == gave_up)
    return true;
  return penstock_pool_alive(pool, token, nullptr, 0) == 0;
}

Ways::Ways(penstock_pool_t* pool, std::uint64_t key, int rank, int ranks, bool has_gpu)
    : pool_(pool),
      key_(key),
      self_(static_cast<std::uint32_t>(rank)),
      offers_(static_cast<std::size_t>(ranks)),
      objects_(static_cast<std::size_t>(ranks)) {
  Offer& mine = offers_[self_];
  penstock_pool_info_t info{};
  (void)penstock_pool_info(pool, &info);
  mine.node = info.node;
  mine.has_gpu = has_gpu ? 1 : 0;
  if (!has_gpu || ranks == 1) return;
  const auto others = static_cast<std::uint64_t>(ranks) - 1;
  const std::uint64_t slot_bytes = slot_bytes_for(info, others + 1);
  if (slot_bytes == 0) return;
  penstock_object_options_t options{};
  options.struct_bytes = sizeof options;
  options.lifetime = PENSTOCK_LIFETIME_PROCESS;
  options.alignment = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  options.skip_zeroing = 1;
  const std::uint64_t bytes = page + others * Way::slots * slot_bytes;
  if (penstock_arena_create(pool, name_of(self_).c_str(), bytes, &options, &objects_[self_]) !=
      PENSTOCK_OK)
    return;
  const std::uint64_t none = 0;
  (void)penstock_write(pool, penstock_object_data(objects_[self_]), &none, sizeof none);
  mine.slot_bytes = slot_bytes;
  base::log(base::Level::info, "NCCL messages of GPUs: {} slots of {} for each other rank",
            Way::slots, base::format_bytes(slot_bytes));
}

Ways::~Ways() {
  for (std::uint32_t rank = 0; rank < objects_.size(); ++rank)
    if (rank != self_) penstock_arena_close(objects_[rank]);
  if (objects_[self_] == nullptr) return;
  // Stores of the GPU may lie in this host's caches, and must not come after a new owner's.
  if (is_used_)
    (void)penstock_publish(pool_, penstock_object_data(objects_[self_]),
                           penstock_object_bytes(objects_[self_]));
  if (has_failed_)
    penstock_arena_close(objects_[self_]);
  else
    (void)penstock_arena_destroy(objects_[self_]);
}

void Ways::meet(std::vector<Offer> offers, std::vector<std::uint64_t> tokens) {
  offers_ = std::move(offers);
  tokens_ = std::move(tokens);
}

std::string Ways::name_of(std::uint32_t rank) const {
  return fmt::format("penstock.nccl.slots.{:x}.{}", key_, rank);
}

std::uint64_t Ways::slot_bytes(std::uint32_t from, std::uint32_t to) const {
  return offers_[to].has_gpu != 0 ? offers_[from].slot_bytes : 0;
}

Result Ways::find(std::uint32_t peer, bool is_send, Way& way) {
  const std::uint32_t from = is_send ? self_ : peer, to = is_send ? peer : self_;
  penstock_object_t*& object = objects_[from];
  if (object == nullptr)
    if (const auto opened = penstock_arena_open(pool_, name_of(from).c_str(), &object);
        opened != PENSTOCK_OK)
      return failed(remote_error, fmt::format("ncclRecv: rank {} has left the communicator: {}",
                                              from, penstock_last_error()));
  const std::uint64_t bytes = Way::slots * offers_[from].slot_bytes;
  auto* const data = static_cast<std::byte*>(penstock_object_data(object));
  const std::uint64_t place = to > from ? to - 1 : to;
  if (page + (place + 1) * bytes > penstock_object_bytes(object))
    return failed(internal_error, fmt::format("rank {} has {} bytes of slots", from,
                                              penstock_object_bytes(object)));
  way = {.pool = pool_,
         .begin = data + page + place * bytes,
         .slot_bytes = offers_[from].slot_bytes,
         .failed = data,
         .token = tokens_[from],
         .is_apart = offers_[peer].node != offers_[self_].node};
  if (!is_send) return success;
  is_used_ = true;
  // An earlier owner's data in this host's caches would be merged with what the GPU stores.
  return outcome(penstock_observe(pool_, way.begin, bytes), "ncclSend");
}

void Ways::fail() {
  has_failed_ = true;
  const std::uint64_t value = gave_up;
  if (objects_[self_] != nullptr)
    (void)penstock_write(pool_, penstock_object_data(objects_[self_]), &value, sizeof value);
}

}  // namespace penstock::nccl
