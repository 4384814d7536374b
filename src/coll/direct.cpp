#include "coll/direct.hpp"

#include <algorithm>

#include "coll/missing.hpp"

namespace penstock::coll {

using Kind = DirectOp::Kind;

DirectTurn Direct::next() {
  DirectTurn turn;
  turn.number = s_.begin_next();
  turn.resumes = turn.number != last_ + 1;
  // Hosts may have used either half in the meantime.
  if (turn.resumes) used_.fill(turn.number - 1);
  turn.half = take_half();
  turn.free = used_[turn.half];
  used_[turn.half] = last_ = turn.number;
  return turn;
}

void Direct::note(const std::vector<DirectOp>& program, const DirectTurn& turn) {
  // A rank that rings in this collective has finished the earlier ones, because its lanes begin it
  // together.
  for (const DirectOp& op : program)
    if (op.kind == Kind::await && op.lane == Lane::read) finished_[op.rank] = turn.number - 1;
}

bool Direct::is_over(const DirectOp& op, const DirectTurn& turn) const {
  return s_.memory_of_all().load_word(s_.at(op.at)) >= turn.value(op);
}

/// Collects, for each lane, the ranks awaited by its next wait and by the waits that follow
/// directly.
void Direct::find_missing(const std::vector<DirectOp>& program, const DirectTurn& turn,
                          Missing& missing) const {
  for (const Lane lane : {Lane::write, Lane::read}) {
    bool waits = false;
    for (const DirectOp& op : program) {
      if (op.lane != lane) continue;
      const bool is_wait = op.kind == Kind::await || op.kind == Kind::free;
      if (!is_wait && waits) break;
      if (!is_wait || is_over(op, turn)) continue;
      waits = true;
      missing.push_back(op.rank);
    }
  }
  drop_repeated(missing);
}

void Direct::observe_own_words(const std::vector<DirectOp>* program, const DirectTurn& turn,
                               Missing& missing) const {
  const auto& memory = s_.memory_of_all();
  missing.clear();
  memory.invalidate(s_.at(s_.layout.direct_row(s_.self())), s_.layout.direct_row_bytes());
  memory.load_fence();
  if (program != nullptr) return find_missing(*program, turn, missing);
  for (const std::uint32_t rank : s_.group.others()) {
    const std::byte* const word = s_.at(s_.layout.direct_finished(rank, s_.self()));
    if (memory.load_word(word) < word_of(turn.number, 0)) missing.push_back(rank);
  }
}

Result<void> Direct::look_for_failures(const char* what) {
  const auto& memory = s_.memory_of_all();
  const std::vector<std::uint32_t> others = s_.group.others();
  for (const std::uint32_t rank : others) memory.invalidate(s_.at(s_.layout.failed(rank)), 8);
  memory.load_fence();
  idle_.clear();
  for (const std::uint32_t rank : others) {
    const std::uint64_t failure = memory.load_word(s_.at(s_.layout.failed(rank)));
    if (failure == s_.gave_up_idle())
      idle_.push_back(rank);
    else if (failure != 0)
      return unexpected(s_.failure_of(what, rank, failure));
  }
  return {};
}

Result<void> Direct::look(const char* what, const std::vector<DirectOp>* program,
                          const DirectTurn& turn, Missing& missing) {
  PENSTOCK_TRY(look_for_failures(what));
  observe_own_words(program, turn, missing);
  const Missing awaited = missing;
  for (const std::uint32_t rank : awaited) {
    Result<void> living = s_.group.check_alive(rank, what);
    if (std::find(idle_.begin(), idle_.end(), rank) != idle_.end())
      living = unexpected(s_.failure_of(what, rank, s_.gave_up_idle()));
    if (living) continue;
    // The rank may have published its words before it ended.
    observe_own_words(program, turn, missing);
    if (std::find(missing.begin(), missing.end(), rank) != missing.end())
      return unexpected(living.error());
  }
  return {};
}

void Direct::release_gpu() {
  const auto& memory = s_.group.memory;
  for (const std::uint32_t rank : s_.group.others()) {
    memory.publish_word(s_.at(s_.layout.direct_doorbell(rank, s_.self())), gone);
    memory.publish_word(s_.at(s_.layout.direct_release(s_.self(), rank)), gone);
    memory.publish_word(s_.at(s_.layout.direct_finished(rank, s_.self())), gone);
  }
  memory.store_fence();
}

}  // namespace penstock::coll
