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

constexpr std::uint64_t line_bytes = 64;

/// Bytes before the slots: a line for the owner, and one for each rank.
std::uint64_t head_bytes(std::uint64_t ranks) {
  return base::align_up((1 + ranks) * line_bytes, page);
}

std::byte* line_of(penstock_object_t* object, std::uint32_t rank) {
  return static_cast<std::byte*>(penstock_object_data(object)) + (1 + rank) * line_bytes;
}

/// The first word of a line; nullopt: it cannot be read.
std::optional<std::uint64_t> word_of(penstock_pool_t* pool, const void* line) {
  std::uint64_t found = 0;
  if (penstock_read(pool, &found, line, sizeof found) != PENSTOCK_OK) return std::nullopt;
  return found;
}

/// Memory of a rank that has left its communicator, while others have not: their GPUs have it
/// registered, and it must not become a part of what they register next.
struct Left {
  struct Other {
    std::uint32_t rank;
    std::uint64_t token;
  };
  penstock_pool_t* pool;
  penstock_object_t* object;
  std::uint64_t key;
  std::vector<Other> others;  ///< not known to have left
};

std::mutex left_mutex;
std::vector<Left>& all_left() {
  static auto& all = *new std::vector<Left>;  // threads may end after the program's statics
  return all;
}

bool is_free(Left& left) {
  std::erase_if(left.others, [&](const Left::Other& other) {
    return word_of(left.pool, line_of(left.object, other.rank)) == left.key ||
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

Result SlotRing::publish(std::uint64_t chunk, std::uint64_t bytes) const {
  if (!is_apart) return success;
  return outcome(penstock_publish(pool, slot(chunk), bytes), "ncclSend");
}

Result SlotRing::observe(std::uint64_t chunk, std::uint64_t bytes) const {
  if (!is_apart) return success;
  return outcome(penstock_observe(pool, slot(chunk), bytes), "ncclRecv");
}

bool SlotRing::has_failed() const {
  return word_of(pool, failed) != key || penstock_pool_alive(pool, token, nullptr, 0) == 0;
}

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
  if (slot_bytes == 0) return;
  penstock_object_options_t options{};
  options.struct_bytes = sizeof options;
  options.lifetime = PENSTOCK_LIFETIME_PROCESS;
  options.alignment = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  options.skip_zeroing = 1;
  const std::uint64_t head = head_bytes(others + 1);
  const std::uint64_t bytes = head + others * SlotRing::slots * slot_bytes;
  if (penstock_arena_create(pool_, name_of(self_).c_str(), bytes, &options, &objects_[self_]) !=
      PENSTOCK_OK)
    return;
  std::vector<std::uint64_t> lines(head / sizeof(std::uint64_t));
  lines.front() = key_;
  (void)penstock_write(pool_, penstock_object_data(objects_[self_]), lines.data(), head);
  mine.slot_bytes = slot_bytes;
  base::log(base::Level::info, "NCCL messages of GPUs: {} slots of {} for each other rank",
            SlotRing::slots, base::format_bytes(slot_bytes));
}

MessageSlots::~MessageSlots() {
  const bool has_met = !tokens_.empty();
  Left mine{.pool = pool_, .object = objects_[self_], .key = key_, .others = {}};
  for (std::uint32_t rank = 0; rank < objects_.size(); ++rank) {
    if (rank == self_ || !has_met) continue;
    if (slot_bytes(self_, rank) != 0) mine.others.push_back({.rank = rank, .token = tokens_[rank]});
    if (slot_bytes(rank, self_) == 0) continue;
    if (penstock_object_t* const object = open(rank); object != nullptr)
      (void)penstock_write(pool_, line_of(object, self_), &key_, sizeof key_);
    penstock_arena_close(objects_[rank]);
  }
  if (mine.object == nullptr) return;
  // Stores of the GPU may lie in this host's caches, and must not come after a new owner's.
  const std::uint64_t head = head_bytes(offers_.size());
  if (is_used_)
    (void)penstock_publish(pool_, static_cast<std::byte*>(penstock_object_data(mine.object)) + head,
                           penstock_object_bytes(mine.object) - head);
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
  const std::uint64_t head = head_bytes(offers_.size());
  const std::uint64_t bytes = SlotRing::slots * offers_[from].slot_bytes;
  auto* const data = static_cast<std::byte*>(penstock_object_data(object));
  const std::uint64_t place = to > from ? to - 1 : to;
  if (head + (place + 1) * bytes > penstock_object_bytes(object))
    return failed(internal_error, fmt::format("rank {} has {} bytes of slots", from,
                                              penstock_object_bytes(object)));
  ring = {.pool = pool_,
          .begin = data + head + place * bytes,
          .slot_bytes = offers_[from].slot_bytes,
          .failed = data,
          .key = key_,
          .token = tokens_[from],
          .is_apart = offers_[peer].node != offers_[self_].node};
  if (!is_send) return success;
  is_used_ = true;
  // An earlier owner's data in this host's caches would be merged with what the GPU stores.
  return outcome(penstock_observe(pool_, ring.begin, bytes), "ncclSend");
}

void MessageSlots::fail() {
  const std::uint64_t value = ~key_;
  if (objects_[self_] != nullptr)
    (void)penstock_write(pool_, penstock_object_data(objects_[self_]), &value, sizeof value);
}

bool MessageSlots::has_given_up(std::uint32_t peer) {
  if (slot_bytes(peer, self_) == 0) return false;
  penstock_object_t* const object = open(peer);
  if (object == nullptr) return false;
  return word_of(pool_, penstock_object_data(object)).value_or(key_) != key_;
}

}  // namespace penstock::nccl
