#include "gpu/fused_launch.hpp"

#include <algorithm>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
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
  const std::uint64_t collective;
  const Movement& movement;
  const FusedLaunches::Words& words;

  bool is_needed(const coll::DirectOp& op) const { return words.is_needed(op); }
  std::uint64_t* word(const coll::DirectOp& op) const { return words.at(op); }
  void describe(std::uint32_t step, Moved& moved) const {
    movement.describe(call, prepared, collective, prepared.schedule.steps[step], moved);
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

Result<FusedLaunches> FusedLaunches::make(const coll::Communicator& core, const Movement& movement,
                                          std::shared_ptr<const Device> device) {
  const Limits found = PENSTOCK_TRY(limits(core.shares_gpu()));
  base::log(base::Level::info, "collectives of a GPU: blocks of up to {} bytes by one launch{}",
            found.bytes, core.shares_gpu() ? ", for ranks share a GPU" : "");
  return FusedLaunches(core.ranks(), movement, std::move(device), found);
}

bool FusedLaunches::is_small(const Call& call, bool by_launches) const {
  const std::uint64_t most = by_launches ? limits_.bytes_by_launches : limits_.bytes;
  return most != 0 && device_->words_kernel() && longest_block(call.problem) <= most;
}

bool FusedLaunches::complete(FusedCall& arguments, const Call& call, const coll::Prepared& prepared,
                             std::uint64_t collective, const Words& words) const {
  arguments.ranks = ranks_;
  if (call.reducing) set_arithmetic(*call.reducing, arguments);
  const Places places{call, prepared, collective, movement_, words};
  FusedArguments made(arguments, places);
  return std::all_of(prepared.fused.begin(), prepared.fused.end(),
                     [&](const coll::FusedRound& round) { return made.add(round); });
}

Result<void> FusedLaunches::launch(const Call& call, FusedCall& arguments,
                                   cuda::Stream stream) const {
  const coll::Datatype type = call.reducing ? call.reducing->type : coll::Datatype::uint8;
  const cuda::Function kernel = PENSTOCK_TRY(device_->fused_kernel(type));
  return device_->launch(kernel, 1, fused_threads, &arguments, stream,
                         "a kernel that carries out a small collective");
}

}  // namespace penstock::gpu
