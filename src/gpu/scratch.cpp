#include "gpu/scratch.hpp"

#include <algorithm>

#include "base/log.hpp"

namespace penstock::gpu {

namespace {

/// More ranks publish shorter parts, and their copies would be as many as a stream holds.
constexpr std::uint32_t max_brought = 32;

}  // namespace

GrowingMemory::~GrowingMemory() {
  const Device::Scope scope(*device_);
  for (const cuda::DevicePointer memory : all_) (void)device_->driver().mem_free(memory);
}

Result<void> GrowingMemory::ensure(std::uint64_t bytes, const char* what) {
  if (bytes <= bytes_) return {};
  cuda::DevicePointer memory = 0;
  PENSTOCK_TRY(device_->driver().check(device_->driver().mem_alloc(&memory, bytes), what));
  all_.push_back(memory);
  bytes_ = bytes;
  return {};
}

Scratch::~Scratch() {
  const Device::Scope scope(*device_);
  for (Kernels& kernels : kernels_) close(kernels);
}

/// The first piece of a reduction overlaps no kernel and the last one no copy, so pieces are short.
/// A lane gets some 256 operations at most.
Scratch::Cut Scratch::cut_of(std::uint64_t bytes, std::uint32_t brought) {
  constexpr std::uint64_t usual_bytes = 512 << 10, max_operations = 256, alignment = 256;
  const std::uint64_t most = std::max<std::uint64_t>(max_operations / (brought + 2), 1);
  const std::uint64_t wanted = (bytes + usual_bytes - 1) / usual_bytes;
  const std::uint64_t least_bytes = (bytes + most - 1) / most;
  Cut cut;
  cut.piece_bytes = std::max(wanted <= most ? usual_bytes : least_bytes, alignment);
  cut.piece_bytes = (std::min(cut.piece_bytes, bytes) + alignment - 1) / alignment * alignment;
  cut.pieces = (bytes + cut.piece_bytes - 1) / cut.piece_bytes;
  return cut;
}

bool Scratch::is_worth_it(std::uint64_t bytes, std::uint32_t brought, std::uint64_t from_bytes) {
  return bytes >= from_bytes && brought != 0 && brought <= max_brought;
}

Result<void> Scratch::open(Kernels& kernels) {
  if (kernels.stream != nullptr) return {};
  const cuda::Driver& driver = device_->driver();
  int least = 0, greatest = 0;
  PENSTOCK_TRY(driver.check(driver.context_priorities(&least, &greatest), "priorities of streams"));
  for (auto* const events : {&kernels.brought, &kernels.reduced})
    for (cuda::Event& event : *events)
      if (event == nullptr)
        PENSTOCK_TRY(
            driver.check(driver.event_create(&event, cuda::event_disable_timing), "an event"));
  return driver.check(
      driver.stream_create_with_priority(&kernels.stream, cuda::stream_non_blocking, greatest),
      "a stream");
}

void Scratch::close(Kernels& kernels) {
  const cuda::Driver& driver = device_->driver();
  if (kernels.stream != nullptr) {
    (void)driver.stream_synchronize(kernels.stream);
    (void)driver.stream_destroy(kernels.stream);
  }
  for (const auto* const events : {&kernels.brought, &kernels.reduced})
    for (const cuda::Event event : *events)
      if (event != nullptr) (void)driver.event_destroy(event);
}

Result<void> Scratch::ensure(const coll::Schedule& schedule, std::uint64_t from_bytes) {
  std::uint64_t bytes = 0;
  for (const coll::Step& step : schedule.steps) {
    if (step.kind != coll::StepKind::combine || step.span.bytes < from_bytes) continue;
    const std::uint32_t brought = coll::operands_in_pool(schedule, step);
    if (!is_worth_it(step.span.bytes, brought, from_bytes)) continue;
    bytes = std::max(bytes, cut_of(step.span.bytes, brought).piece_bytes * brought * buffers);
  }
  if (bytes <= buffers_.bytes() || bytes >= refused_bytes_) return {};
  for (Kernels& kernels : kernels_) PENSTOCK_TRY(open(kernels));
  if (const auto made = buffers_.ensure(bytes, "scratch memory of a reduction"); !made) {
    refused_bytes_ = bytes;
    base::log(base::Level::info, "{}: kernels of this communicator read the pool instead",
              made.error().message);
  }
  return {};
}

bool Scratch::takes(const Moved& moved, std::uint64_t from_bytes) const {
  const std::uint32_t brought = moved.operands_in_pool();
  if (!is_worth_it(moved.bytes, brought, from_bytes)) return false;
  return cut_of(moved.bytes, brought).piece_bytes * brought * buffers <= buffers_.bytes();
}

Result<void> Scratch::reduce(const Reducing& reducing, std::uint32_t ranks, const Moved& moved,
                             Lanes& lanes, Lane lane) {
  const auto reduced = reduce_pieces(reducing, ranks, moved, lanes, lane);
  // Also after an error: kernels still use the program's memory.
  const cuda::Driver& driver = device_->driver();
  const Kernels& kernels = kernels_[lanes.is_captured() ? 1 : 0];
  const auto joined = go_after(driver, kernels.reduced[0], kernels.stream, lanes.stream(lane),
                               "the end of a reduction");
  return reduced ? joined : reduced;
}

Result<void> Scratch::reduce_pieces(const Reducing& reducing, std::uint32_t ranks,
                                    const Moved& moved, Lanes& lanes, Lane lane) {
  constexpr const char* what = "a piece of a reduction";
  const cuda::Driver& driver = device_->driver();
  const Kernels& kernels = kernels_[lanes.is_captured() ? 1 : 0];
  const std::uint32_t brought = moved.operands_in_pool();
  const Cut cut = cut_of(moved.bytes, brought);
  Combine call;
  call.operands = moved.operands;
  for (std::uint64_t i = 0; i < cut.pieces; ++i) {
    const std::size_t buffer = i % buffers;
    const std::uint64_t at = i * cut.piece_bytes;
    const std::uint64_t bytes = std::min(cut.piece_bytes, moved.bytes - at);
    if (i >= buffers)
      PENSTOCK_TRY(driver.check(
          driver.stream_wait_event(lanes.stream(lane), kernels.reduced[buffer], 0), what));
    PENSTOCK_TRY(bring(moved, at, bytes, buffers_.at() + buffer * brought * cut.piece_bytes,
                       cut.piece_bytes, lanes.stream(lane), call));
    PENSTOCK_TRY(
        go_after(driver, kernels.brought[buffer], lanes.stream(lane), kernels.stream, what));
    call.result = reinterpret_cast<void*>(moved.to + at);
    call.elements = bytes / coll::bytes_of(reducing.type);
    PENSTOCK_TRY(launch(*device_, reducing, ranks, call, kernels.stream));
    PENSTOCK_TRY(driver.check(driver.event_record(kernels.reduced[buffer], kernels.stream), what));
    PENSTOCK_TRY(lanes.count(lane, brought + (i >= buffers ? 2 : 1)));
  }
  return {};
}

/// Copies the others' bytes [at, at + bytes) to `buffer`, and sets the operands of `call`.
Result<void> Scratch::bring(const Moved& moved, std::uint64_t at, std::uint64_t bytes,
                            cuda::DevicePointer buffer, std::uint64_t stride, cuda::Stream stream,
                            Combine& call) {
  const cuda::Driver& driver = device_->driver();
  for (std::uint32_t k = 0; k < moved.operands; ++k) {
    cuda::DevicePointer from = moved.from[k] + at;
    if (!moved.own[k]) {
      PENSTOCK_TRY(driver.check(driver.copy(buffer, from, bytes, stream), "a copy to scratch"));
      from = std::exchange(buffer, buffer + stride);
    }
    call.operand[k] = reinterpret_cast<const void*>(from);
  }
  return {};
}

}  // namespace penstock::gpu
