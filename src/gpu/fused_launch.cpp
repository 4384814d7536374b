#include "gpu/fused_launch.hpp"

#include <algorithm>
#include <utility>

#include "base/env.hpp"

namespace penstock::gpu {

namespace {

constexpr const char* variable = "PENSTOCK_GPU_FUSED_BYTES";

std::uint64_t longest_block(const coll::Problem& problem) {
  std::uint64_t bytes = 0;
  for (const auto* const blocks : {&problem.input, &problem.output})
    for (const coll::Block& block : *blocks) bytes = std::max(bytes, block.bytes);
  return bytes;
}

}  // namespace

Result<FusedLaunches::Limits> FusedLaunches::limits(bool shares_gpu) {
  Limits limits;
  if (shares_gpu) limits.bytes = 0;
  if (base::env_is_set(variable))
    limits.bytes = limits.bytes_by_launches = PENSTOCK_TRY(base::env_number(variable));
  return limits;
}

bool FusedLaunches::is_small(const Call& call, bool by_launches) const {
  const std::uint64_t most = by_launches ? limits_.bytes_by_launches : limits_.bytes;
  return most != 0 && device_->words_kernel() && longest_block(call.problem) <= most;
}

bool FusedLaunches::add_word(FusedCall& made, const coll::DirectOp& op) const {
  if (made.words == FusedCall::max_words) return false;
  made.word[made.words++] = {words_.in_pool(op), static_cast<std::uint32_t>(op.low), kind_of(op)};
  return true;
}

bool FusedLaunches::add_move(FusedCall& made, const Moved& moved, bool behind) const {
  if (made.moves == FusedCall::max_moves ||
      made.operands + moved.operands > FusedCall::max_operands)
    return false;
  made.move[made.moves++] = {.to = reinterpret_cast<void*>(moved.to),
                             .bytes = static_cast<std::uint32_t>(moved.bytes),
                             .first = made.operands,
                             .operands = static_cast<std::uint8_t>(moved.operands),
                             .combines = moved.combines,
                             .behind = behind};
  for (std::uint32_t i = 0; i < moved.operands; ++i)
    made.operand[made.operands++] = reinterpret_cast<const void*>(moved.from[i]);
  return true;
}

std::optional<FusedCall> FusedLaunches::arguments(const Call& call, const coll::Prepared& prepared,
                                                  const coll::DirectTurn& turn,
                                                  bool by_launches) const {
  FusedCall made;
  words_.describe(made, turn.half);
  made.done = words_.done_word();
  made.begins = by_launches ? 1 : 0;
  made.turn = {turn.number, turn.free, turn.resumes ? 1u : 0u};
  made.ranks = core_.ranks();
  if (call.reducing) {
    made.operation = operation_of(*call.reducing);
    made.factor = call.reducing->factor;
    made.factor_at = reinterpret_cast<const void*>(call.reducing->factor_at);
  }
  for (const coll::FusedRound& round : prepared.fused)
    if (!add_round(made, call, prepared, round, turn)) return std::nullopt;
  return made;
}

/// A call that counts itself knows only then what it needs. False: it does not fit.
bool FusedLaunches::add_round(FusedCall& made, const Call& call, const coll::Prepared& prepared,
                              const coll::FusedRound& round, const coll::DirectTurn& turn) const {
  const coll::Direct& core = core_.direct();
  const auto is_needed = [&](const coll::DirectOp& op) {
    return made.begins != 0 || core.is_needed(op, turn);
  };
  const std::uint32_t words = made.words, moves = made.moves;
  for (const coll::DirectOp& op : round.waits)
    if (is_needed(op) && !add_word(made, op)) return false;
  const std::uint32_t waited = made.words;
  bool behind = false;
  for (const coll::FusedMove& move : round.moves) {
    Moved moved;
    movement_.describe(call, prepared, turn.half, prepared.schedule.steps[move.step], moved);
    behind = behind || move.behind;
    if (moved.is_nothing()) continue;
    if (!add_move(made, moved, std::exchange(behind, false))) return false;
  }
  for (const coll::DirectOp& op : round.tells)
    if (is_needed(op) && !add_word(made, op)) return false;
  if (made.words == words && made.moves == moves) return true;
  if (made.rounds == FusedCall::max_rounds) return false;
  made.round[made.rounds++] = {.waits = static_cast<std::uint8_t>(waited - words),
                               .moves = static_cast<std::uint8_t>(made.moves - moves),
                               .tells = static_cast<std::uint8_t>(made.words - waited)};
  return true;
}

Result<void> FusedLaunches::launch(const Call& call, FusedCall& arguments,
                                   cuda::Stream stream) const {
  const coll::Datatype type = call.reducing ? call.reducing->type : coll::Datatype::uint8;
  const cuda::Function kernel = PENSTOCK_TRY(device_->fused_kernel(type));
  void* pointers[] = {&arguments};
  return device_->driver().check(
      device_->driver().launch(kernel, 1, 1, 1, fused_threads, 1, 1, 0, stream, pointers, nullptr),
      "a kernel that carries out a small collective");
}

}  // namespace penstock::gpu
