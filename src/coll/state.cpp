#include "coll/state.hpp"

#include <algorithm>

#include "base/format.hpp"

namespace penstock::coll {

namespace {

std::vector<std::uint32_t> group_nodes(const Options& options) {
  if (options.nodes.size() != options.tokens.size()) return {};
  return {options.nodes.begin(), options.nodes.end()};
}

}  // namespace

State::State(pool::Pool& pool, const Options& options)
    : group(pool, {.tokens = options.tokens,
                   .nodes = group_nodes(options),
                   .self = options.self,
                   .noun = options.noun,
                   .idle = options.idle}),
      shape(options.shape),
      layout(group.ranks(), options.shape),
      slots(pool.base(), options.area + layout.slots_begin(), group.ranks(), options),
      own(group.memory, pool.base() + options.area, layout, group.ranks(), options.self),
      noun_(options.noun),
      area_(pool.base() + options.area),
      near_(group.memory.intra_node()),
      any_apart_(group.any_apart()),
      finished_(group.ranks()) {
  end_.set(all_finished, group.others());
  drop_copies();
  clear_releases();
}

/// Drops words of an earlier communicator that this node's caches may still hold. Ranks of one node
/// read each other's words from the caches, and a rank 0 on another node has cleared them only in
/// the pool. The words of direct_program.hpp exist only in modes that keep no stale copies.
void State::drop_copies() {
  for (std::uint32_t rank = 0; rank < group.ranks(); ++rank) {
    if (group.apart(rank)) continue;
    group.memory.invalidate(at(layout.row(rank)), row_words * 8);
    group.memory.invalidate(at(layout.change_offer(rank)), line_bytes);
    group.memory.invalidate(at(layout.eager(rank, 0)), layout.eager_row_bytes());
  }
  group.memory.load_fence();
}

/// Only this rank reads its releases, and no other rank publishes one before it has seen a doorbell
/// of this rank.
void State::clear_releases() {
  const std::vector<std::byte> zeros(layout.row_bytes());
  group.memory.publish_bulk(at(layout.release(self(), 0)), zeros.data(), zeros.size());
  group.memory.store_fence();
}

std::uint64_t State::learn_from(std::uint32_t rank) {
  const auto& memory = memory_of(rank);
  std::uint64_t newest = 0;
  for (std::uint64_t half = 0; half < halves; ++half)
    for (std::uint64_t slot = 0; slot < shape.slots; ++slot)
      newest = std::max(newest, memory.load_word(at(layout.doorbell(rank, half, slot))));
  note_entered(rank, collective_of(newest));
  note_entered(rank, memory.load_word(at(layout.finished(rank))) + 1);
  if (shape.direct && rank != self())
    note_entered(
        rank,
        collective_of(memory_of_all().load_word(at(layout.direct_finished(rank, self())))) + 1);
  return memory.load_word(at(layout.failed(rank)));
}

bool State::is_free(const Use& use, Missing& missing) {
  missing.clear();
  for (const std::uint32_t rank : use.consumers) {
    if (finished_[rank] < use.collective) missing.push_back(rank);
  }
  if (missing.empty()) return true;
  for (const std::uint32_t rank : missing)
    memory_of(rank).invalidate(at(layout.row(rank)), row_words * 8);
  for (const std::uint32_t rank : missing)
    if (shape.direct) memory_of_all().invalidate(at(layout.direct_finished(rank, self())), 8);
  memory_of_all().load_fence();
  std::erase_if(missing, [&](std::uint32_t rank) {
    learn_from(rank);
    return finished_[rank] >= use.collective;
  });
  return missing.empty();
}

void State::finish(bool eager, bool read_by_all) {
  if (read_by_all) announced_ = number - 1;
  if (!eager) {
    with_slots_before_ = last_with_slots_;
    last_with_slots_ = number;
  }
  // The others must know this before they can begin the next collective. Eager blocks need the
  // previous user of the block, half of the blocks early. Slots need the last but one collective
  // that used slots.
  const std::uint64_t half = shape.eager_blocks / 2;
  const std::uint64_t for_blocks = number > half ? number - half : 0;
  const std::uint64_t for_slots = eager ? last_with_slots_ : with_slots_before_;
  if (announced_ < std::max(for_blocks, for_slots)) {
    own.publish_word(layout.finished(self()), number);
    published();
    announced_ = number;
  }
  send_off();
}

void State::finish_in_switch() {
  own.publish_word(layout.finished(self()), number);
  published();
  announced_ = number;
  send_off();
}

void State::leave() {
  restore_own_words();  // for the last time: others may still need a word of the last call
  own.publish_word(layout.finished(self()), all_finished);
  // Before a look at which ranks have left: if two leave at once, at least one sees the other.
  group.memory.full_fence();
}

bool State::all_left(Missing& missing) {
  return is_free(end_, missing);
}

Error State::failure_of(const char* what, std::uint32_t rank, std::uint64_t failure) {
  if (failure <= group.ranks()) blamed_ = static_cast<std::uint32_t>(failure - 1);
  return error_of(what, rank, failure);
}

Error State::error_of(const char* what, std::uint32_t rank, std::uint64_t failure) const {
  const std::uint64_t dead = failure - 1;
  if (failure == gave_up() || failure == gave_up_idle())
    return {ErrorCode::unavailable,
            fmt::format("{}: {} has given the {} up; its own message says why", what,
                        group.name(rank), noun_)};
  if (dead >= group.ranks())
    return {ErrorCode::wrong_format,
            fmt::format("{}: {} tells of a failure of rank {}, and there are {} ranks", what,
                        group.name(rank), dead, group.ranks())};
  const auto gone = static_cast<std::uint32_t>(dead);
  if (auto living = group.check_alive_now(gone, what); !living) return living.error();
  return {ErrorCode::peer_dead,
          fmt::format("{}: {} found {} dead or gone", what, group.name(rank), group.name(gone))};
}

Result<void> State::check_others(const char* what) const {
  const auto& memory = memory_of_all();
  const std::vector<std::uint32_t> others = group.others();
  for (const std::uint32_t rank : others) memory.invalidate(at(layout.failed(rank)), 8);
  memory.load_fence();
  for (const std::uint32_t rank : others) {
    const std::uint64_t failure = memory.load_word(at(layout.failed(rank)));
    if (failure != 0 && failure != gave_up_idle()) return unexpected(error_of(what, rank, failure));
  }
  return {};
}

Result<void> State::check_failures(const char* what, const Missing& missing,
                                   std::optional<std::uint32_t>& failed) {
  for (const std::uint32_t rank : missing) {
    const std::uint64_t failure = learn_from(rank);
    if (failure == 0) continue;
    failed = rank;
    return unexpected(failure_of(what, rank, failure));
  }
  return {};
}

/// A rank that is dead or gone; else the number of ranks.
std::uint32_t State::dead_rank() const {
  for (std::uint32_t rank = 0; rank < group.ranks(); ++rank) {
    if (rank != self() && !group.alive(rank)) return rank;
  }
  return group.ranks();
}

void State::fail_with(const Error& error, bool idle) {
  failure_ = error;
  std::uint64_t failure = idle ? gave_up_idle() : gave_up();
  if (error.code == ErrorCode::peer_dead)
    failure = blamed_.value_or(dead_rank()) + std::uint64_t{1};
  for (std::uint64_t half = 0; half < halves; ++half)
    own.publish_word(layout.failed(self(), half), failure);
  // Before this rank's program stores to memory that others still read (zero_copy.hpp).
  group.memory.full_fence();
}

}  // namespace penstock::coll
