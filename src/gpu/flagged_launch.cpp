#include "gpu/flagged_launch.hpp"

#include <algorithm>

#include "base/env.hpp"
#include "base/log.hpp"
#include "gpu/flagged_arguments.hpp"

namespace penstock::gpu {

namespace {

struct FlaggedPlaces {
  const Call& call;
  const Movement& movement;

  cuda::DevicePointer at(const coll::Span& span) const { return movement.at(call, span); }
  cuda::DevicePointer in_pool(const std::byte* memory) const { return movement.in_pool(memory); }
};

}  // namespace

Result<FlaggedLaunches::Offer> FlaggedLaunches::offer(const Device& device) {
  Offer made{.bytes = coll::default_flagged_bytes};
  for (const char* const variable : {"PENSTOCK_GPU_FUSED_BYTES", "PENSTOCK_GPU_FLAGGED_BYTES"}) {
    if (!base::env_is_set(variable)) continue;
    const std::uint64_t asked = PENSTOCK_TRY(base::env_number(variable));
    const bool bounds = variable == std::string_view("PENSTOCK_GPU_FUSED_BYTES");
    made.bytes = bounds ? std::min(made.bytes, asked) : asked;
    made.also_shared = true;
  }
  if (!device.words_kernel()) made.bytes = 0;
  return made;
}

Result<std::unique_ptr<FlaggedLaunches>> FlaggedLaunches::make(
    coll::Communicator& core, const Movement& movement, std::shared_ptr<const Device> device) {
  const Offer offered = PENSTOCK_TRY(offer(*device));
  std::unique_ptr<FlaggedLaunches> made(new FlaggedLaunches(core, movement, std::move(device)));
  base::log(base::Level::info, "collectives of a GPU: flagged calls {}, {} bytes offered",
            core.has_flagged_calls() ? "are made" : "are not made", offered.bytes);
  if (!core.has_flagged_calls()) return made;
  made->state_ = PENSTOCK_TRY(
      made->device_->zeroed_memory(sizeof(FlaggedState), "the state of flagged calls"));
  return made;
}

FlaggedLaunches::~FlaggedLaunches() {
  if (state_ == 0) return;
  const Device::Scope scope(*device_);
  (void)device_->driver().mem_free(state_);
}

void FlaggedLaunches::complete(FlaggedCall& arguments, const Call& call,
                               const coll::Prepared& prepared, const coll::DirectTurn* turn) const {
  const coll::Direct& direct = core_.direct();
  arguments.state = reinterpret_cast<FlaggedState*>(state_);
  if (turn != nullptr) {
    arguments.turn = turn->number;
    arguments.calls = turn->flagged;
    arguments.awaits_readers = !direct.is_block_free(*turn);
  }
  if (call.reducing) set_arithmetic(*call.reducing, arguments);
  const bool combines_one = call.reducing && !copies_one(*call.reducing);
  const auto word = [&](const std::byte* at) {
    return reinterpret_cast<std::uint64_t*>(movement_.in_pool(at));
  };
  arguments.finished = word(direct.finished_word(0, core_.self()));
  arguments.tells = word(direct.finished_word(core_.self(), 0));
  arguments.tells_stride =
      static_cast<std::uint32_t>(word(direct.finished_word(core_.self(), 1)) - arguments.tells);
  const FlaggedPlaces places{call, movement_};
  FlaggedArguments(arguments, core_, prepared, places).add_all(combines_one);
}

Result<void> FlaggedLaunches::launch(const Call& call, FlaggedCall& arguments,
                                     cuda::Stream stream) const {
  const coll::Datatype type = call.reducing ? call.reducing->type : coll::Datatype::uint8;
  const cuda::Function kernel = PENSTOCK_TRY(device_->flagged_kernel(type));
  return device_->launch(kernel, 1, fused_threads, &arguments, stream,
                         "a kernel that carries out a small collective by flags");
}

}  // namespace penstock::gpu
