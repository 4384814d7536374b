#include "nccl/message_slots.hpp"

#include <unistd.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/checked.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "nccl/outcome.hpp"

namespace penstock::nccl {

namespace {

constexpr std::uint64_t page = 4096;
constexpr std::uint64_t min_slot = 128 << 10, max_slot = 1 << 20;
constexpr std::uint64_t pool_part = 16;  ///< of the free space, for the slots of all ranks

/// Memory of a rank that has left its communicator, while others have not: their GPUs have it
/// registered, and it must not become a part of what they register next.
struct Left {
  struct Other {
    std::uint64_t token;
    std::optional<SlotMemory> memory;
  };
  penstock_pool_t* pool;
  penstock_object_t* object;
  std::vector<Other> others;  ///< not known to have left
};

std::mutex left_mutex;
std::vector<Left>& all_left() {
  static auto& all = *new std::vector<Left>;  // threads may end after the program's statics
  return all;
}

bool is_free(Left& left) {
  std::erase_if(left.others, [&](const Left::Other& other) {
    return (other.memory && other.memory->has_left()) ||
           penstock_pool_alive(left.pool, other.token, nullptr, 0) == 0;
  });
  return left.others.empty();
}

void free_what_is_left() {
  const std::lock_guard<std::mutex> guard(left_mutex);
  std::erase_if(all_left(), [](Left& left) {
    const bool free = is_free(left);
    if (free) (void)penstock_arena_destroy(left.object);
    return free;
  });
}

/// The same slots serve as long as the communicator lives: shorter ones in a fuller pool.
std::uint64_t slot_bytes_for(const penstock_pool_info_t& info, std::uint64_t ranks) {
  const std::uint64_t left =
      info.object_bytes_total - std::min(info.object_bytes_used, info.object_bytes_total);
  const std::uint64_t wanted =
      left / pool_part / (ranks * (ranks - 1) * SlotRing::slots) / page * page;
  return wanted < min_slot ? 0 : std::min(wanted, max_slot);
}

}  // namespace

MessageSlots::MessageSlots(penstock_pool_t* pool, std::uint64_t key, int rank, int ranks,
                           bool has_gpu)
    : pool_(pool),
      key_(key),
      self_(static_cast<std::uint32_t>(rank)),
      offers_(static_cast<std::size_t>(ranks)),
      objects_(static_cast<std::size_t>(ranks)) {
  free_what_is_left();
  Offer& mine = offers_[self_];
  penstock_pool_info_t info{};
  (void)penstock_pool_info(pool_, &info);
  mine.node = info.node;
  mine.has_gpu = has_gpu ? 1 : 0;
  if (!has_gpu || ranks == 1) return;
  const auto others = static_cast<std::uint64_t>(ranks) - 1;
  const std::uint64_t slot_bytes = slot_bytes_for(info, others + 1);
  penstock_object_options_t options{};
  options.struct_bytes = sizeof options;
  options.lifetime = PENSTOCK_LIFETIME_PROCESS;
  options.alignment = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  options.skip_zeroing = 1;
  if (penstock_arena_create(pool_, name_of(self_).c_str(), SlotMemory::bytes(others, slot_bytes),
                            &options, &objects_[self_]) != PENSTOCK_OK)
    return;
  memory(objects_[self_]).begin();
  mine.has_memory = 1;
  mine.slot_bytes = slot_bytes;
  if (slot_bytes == 0) return;
  base::log(base::Level::info, "NCCL messages of GPUs: {} slots of {} for each other rank",
            SlotRing::slots, base::format_bytes(slot_bytes));
}

MessageSlots::~MessageSlots() {
  const bool has_met = !tokens_.empty();
  Left mine{.pool = pool_, .object = objects_[self_], .others = {}};
  for (std::uint32_t rank = 0; rank < objects_.size(); ++rank) {
    if (rank == self_ || !has_met || slot_bytes(self_, rank) == 0) continue;
    const penstock_object_t* const object = offers_[rank].has_memory != 0 ? open(rank) : nullptr;
    if (object != nullptr)
      mine.others.push_back({tokens_[rank], memory(object)});
    else if (offers_[rank].has_memory == 0)
      mine.others.push_back({tokens_[rank], std::nullopt});
  }
  for (std::uint32_t rank = 0; rank < objects_.size(); ++rank)
    if (rank != self_) penstock_arena_close(objects_[rank]);
  if (mine.object == nullptr) return;
  if (is_used_) memory(mine.object).write_back(penstock_object_bytes(mine.object));
  memory(mine.object).leave();
  {
    const std::lock_guard<std::mutex> guard(left_mutex);
    all_left().push_back(std::move(mine));
  }
  free_what_is_left();
}

void MessageSlots::forget(const penstock_pool_t* pool) {
  const std::lock_guard<std::mutex> guard(left_mutex);
  std::erase_if(all_left(), [&](const Left& left) {
    if (left.pool == pool) penstock_arena_close(left.object);
    return left.pool == pool;
  });
}

void MessageSlots::meet(std::vector<Offer> offers, std::vector<std::uint64_t> tokens) {
  offers_ = std::move(offers);
  tokens_ = std::move(tokens);
}

std::string MessageSlots::name_of(std::uint32_t rank) const {
  return fmt::format("penstock.nccl.slots.{:x}.{}", key_, rank);
}

std::uint64_t MessageSlots::slot_bytes(std::uint32_t from, std::uint32_t to) const {
  return offers_[to].has_gpu != 0 ? offers_[from].slot_bytes : 0;
}

SlotMemory MessageSlots::memory(const penstock_object_t* object) const {
  return {pool_, static_cast<std::byte*>(penstock_object_data(object)), key_};
}

/// The memory of a rank, or null.
penstock_object_t* MessageSlots::open(std::uint32_t rank) {
  const std::lock_guard<std::mutex> guard(mutex_);
  penstock_object_t*& object = objects_[rank];
  if (object == nullptr &&
      penstock_arena_open(pool_, name_of(rank).c_str(), &object) != PENSTOCK_OK)
    object = nullptr;
  return object;
}

Result MessageSlots::find(std::uint32_t peer, bool is_send, SlotRing& ring) {
  const std::uint32_t from = is_send ? self_ : peer, to = is_send ? peer : self_;
  penstock_object_t* const object = open(from);
  if (object == nullptr)
    return failed(remote_error, fmt::format("ncclRecv: rank {} has left the communicator: {}", from,
                                            penstock_last_error()));
  const std::uint64_t place = to > from ? to - 1 : to;
  if (SlotMemory::bytes(place + 1, offers_[from].slot_bytes) > penstock_object_bytes(object))
    return failed(internal_error, fmt::format("rank {} has {} bytes of slots", from,
                                              penstock_object_bytes(object)));
  ring = memory(object).ring(place, offers_[from].slot_bytes);
  ring.token = tokens_[from];
  ring.is_apart = offers_[peer].node != offers_[self_].node;
  if (!is_send) return success;
  is_used_ = true;
  return ring.drop_copies();
}

void MessageSlots::fail() {
  if (objects_[self_] != nullptr) memory(objects_[self_]).give_up();
}

bool MessageSlots::has_given_up(std::uint32_t peer) {
  if (slot_bytes(peer, self_) == 0) return false;
  const penstock_object_t* const object = open(peer);
  return object != nullptr && memory(object).has_given_up();
}

}  // namespace penstock::nccl
