#include "gpu/fused_launch.hpp"

#include <algorithm>

#include "base/env.hpp"
#include "base/format.hpp"
#include "gpu/fused_arguments.hpp"

namespace penstock::gpu {

namespace {

constexpr const char* variable = "PENSTOCK_GPU_FUSED_BYTES";

std::uint64_t longest_block(const coll::Problem& problem) {
  std::uint64_t bytes = 0;
  for (const auto* const blocks : {&problem.input, &problem.output})
    for (const coll::Block& block : *blocks) bytes = std::max(bytes, block.bytes);
  return bytes;
}

struct Places {
  const Call& call;
  const coll::Prepared& prepared;
  const coll::DirectTurn& turn;
  const Movement& movement;
  const StreamWords& words;

  std::uint64_t* word(const coll::DirectOp& op) const { return words.in_pool(op); }
  void describe(std::uint32_t step, Moved& moved) const {
    movement.describe(call, prepared, turn.half, prepared.schedule.steps[step], moved);
  }
};

}  // namespace

Result<FusedLaunches::Limits> FusedLaunches::limits(bool shares_gpu) {
  Limits limits;
  if (shares_gpu) limits.bytes = 0;
  if (!base::env_is_set(variable)) return limits;
  const std::uint64_t wanted = PENSTOCK_TRY(base::env_number(variable));
  limits.bytes = limits.bytes_by_launches = wanted;
  return limits;
}

bool FusedLaunches::is_small(const Call& call, bool by_launches) const {
  const std::uint64_t most = by_launches ? limits_.bytes_by_launches : limits_.bytes;
  return most != 0 && device_->words_kernel() && longest_block(call.problem) <= most;
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
  const Places places{call, prepared, turn, movement_, words_};
  FusedArguments arguments(made, places, by_launches ? nullptr : &core_.direct(), turn);
  for (const coll::FusedRound& round : prepared.fused)
    if (!arguments.add(round)) return std::nullopt;
  return made;
}

Result<void> FusedLaunches::launch(const Call& call, FusedCall& arguments,
                                   cuda::Stream stream) const {
  const coll::Datatype type = call.reducing ? call.reducing->type : coll::Datatype::uint8;
  const cuda::Function kernel = PENSTOCK_TRY(device_->fused_kernel(type));
  return device_->launch(kernel, 1, fused_threads, &arguments, stream,
                         "a kernel that carries out a small collective");
}

}  // namespace penstock::gpu
