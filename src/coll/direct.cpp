#include "coll/direct.hpp"

#include <algorithm>
#include <utility>

#include "coll/missing.hpp"

namespace penstock::coll {

using Kind = DirectOp::Kind;

DirectTurn Direct::next(const Prepared& prepared) {
  DirectTurn turn;
  turn.number = s_.begin_next();
  turn.resumes = turn.number != last_ + 1;
  // Hosts may have used either half in the meantime.
  if (turn.resumes) used_.fill(turn.number - 1);
  last_ = turn.number;
  if (prepared.flagged) {  // tells by its end that earlier collectives are finished
    turn.flagged = ++flagged_calls_;
    turn.free = std::exchange(block_used_[turn.flagged % flagged_blocks], turn.number);
  } else {
    turn.half = take_half();
    turn.free = std::exchange(used_[turn.half], turn.number);
  }
  return turn;
}

bool Direct::is_block_free(const DirectTurn& turn) const {
  const auto others = s_.group.others();
  return std::all_of(others.begin(), others.end(),
                     [&](std::uint32_t rank) { return finished_[rank] >= turn.free; });
}

void Direct::note(const Prepared& prepared, const DirectTurn& turn) {
  // A rank that rings in this collective has finished the earlier ones, because its lanes begin it
  // together.
  for (const DirectOp& op : prepared.direct)
    if (op.kind == Kind::await && op.lane == Lane::read) finished_[op.rank] = turn.number - 1;
  if (!prepared.flagged) return;
  for (const EagerRead& read : prepared.reads) finished_[read.rank] = turn.number - 1;
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

bool Direct::has_finished(std::uint32_t rank, std::uint64_t collective) const {
  return s_.memory_of_all().load_word(finished_word(rank, s_.self())) >= word_of(collective, 0);
}

bool Direct::has_arrived(const EagerRead& read, std::uint64_t call) const {
  const auto& memory = s_.memory_of_all();
  const std::byte* const begin = flagged_units_of(read, call);
  for (std::uint64_t at = 0; at < units_of(read.bytes) * unit_bytes; at += sizeof(std::uint64_t))
    if (flag_in(memory.load_word(begin + at)) != flag_of(call)) return false;
  return true;
}

/// Collects the ranks whose data the call waits for, and those that may still read the block's
/// earlier contents.
void Direct::find_missing_data(const Prepared& prepared, const DirectTurn& turn,
                               Missing& missing) const {
  const auto& memory = s_.memory_of_all();
  for (const EagerRead& read : prepared.reads)
    memory.invalidate(flagged_units_of(read, turn.flagged), units_of(read.bytes) * unit_bytes);
  memory.load_fence();
  for (const EagerRead& read : prepared.reads)
    if (!has_arrived(read, turn.flagged)) missing.push_back(read.rank);
  for (const std::uint32_t rank : s_.group.others())
    if (!has_finished(rank, turn.free)) missing.push_back(rank);
  drop_repeated(missing);
}

const std::byte* Direct::flagged_units_of(const EagerRead& read, std::uint64_t call) const {
  return s_.at(s_.layout.flagged(read.rank, call)) + read.at / unit_payload * unit_bytes;
}

void Direct::observe_awaited(const Prepared* prepared, const DirectTurn& turn,
                             Missing& missing) const {
  const auto& memory = s_.memory_of_all();
  missing.clear();
  memory.invalidate(s_.at(s_.layout.direct_row(s_.self())), s_.layout.direct_row_bytes());
  memory.load_fence();
  if (prepared != nullptr && prepared->flagged) return find_missing_data(*prepared, turn, missing);
  if (prepared != nullptr) return find_missing(prepared->direct, turn, missing);
  for (const std::uint32_t rank : s_.group.others())
    if (!has_finished(rank, turn.number)) missing.push_back(rank);
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

Result<void> Direct::look(const char* what, const Prepared* prepared, const DirectTurn& turn,
                          Missing& missing) {
  PENSTOCK_TRY(look_for_failures(what));
  observe_awaited(prepared, turn, missing);
  const Missing awaited = missing;
  for (const std::uint32_t rank : awaited) {
    Result<void> living = s_.group.check_alive(rank, what);
    if (std::find(idle_.begin(), idle_.end(), rank) != idle_.end())
      living = unexpected(s_.failure_of(what, rank, s_.gave_up_idle()));
    if (living) continue;
    // The rank may have published its words before it ended.
    observe_awaited(prepared, turn, missing);
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
