#include "gpu/stream_words.hpp"

#include <algorithm>
#include <functional>

#include "gpu/fused_arguments.hpp"

namespace penstock::gpu {

namespace {

using Kind = coll::DirectOp::Kind;

bool waits(const coll::DirectOp& op) {
  return op.kind == Kind::await || op.kind == Kind::free;
}

}  // namespace

static_assert(word_low_bits == coll::low_bits && released_word == coll::Direct::gone);

Result<std::unique_ptr<StreamWords>> StreamWords::make(coll::Direct& core, const Movement& movement,
                                                       std::shared_ptr<const Device> device) {
  std::unique_ptr<StreamWords> made(new StreamWords(core, movement, std::move(device)));
  PENSTOCK_TRY(made->open());
  return made;
}

Result<void> StreamWords::open() {
  words_ = PENSTOCK_TRY(PinnedWords::make(device_));
  if (!device_->words_kernel()) return {};
  epoch_ = PENSTOCK_TRY(device_->zeroed_memory(sizeof(Epoch), "a number of collectives"));
  return {};
}

StreamWords::~StreamWords() {
  if (epoch_ == 0) return;
  const Device::Scope scope(*device_);
  (void)device_->driver().mem_free(epoch_);
}

void StreamWords::begin(const Target& target) {
  target_ = target;
  begins_ = target.by_launches;
}

/// Lets the GPU see a word that is told before a wait that follows it in the program's order. A GPU
/// has few queues, and two lanes may share one, as they do if a program has many streams: a wait
/// that got there first would hold up the words that other ranks need to end it.
Result<void> StreamWords::add(const coll::DirectOp& op) {
  auto& pending = pending_[index_of(op.lane)];
  const Lane other = op.lane == Lane::write ? Lane::read : Lane::write;
  const auto& of_other = pending_[index_of(other)];
  if (waits(op) && std::any_of(of_other.begin(), of_other.end(), std::not_fn(waits)))
    PENSTOCK_TRY(flush(other));
  // A launch waits first, then tells.
  const bool behind = waits(op) && !pending.empty() && !waits(pending.back());
  if (target_.by_launches && (behind || pending.size() == WordOps::most))
    PENSTOCK_TRY(flush(op.lane));
  pending.push_back(op);
  return {};
}

Result<void> StreamWords::flush(Lane lane) {
  return target_.by_launches ? flush_launch(lane, false) : flush_batch(lane, false);
}

std::size_t StreamWords::pending() const {
  std::size_t operations = 0;
  for (const auto& of_lane : pending_) operations += of_lane.size();
  return operations;
}

Result<void> StreamWords::finish() {
  for (const Lane lane : both_lanes) {
    const bool last = lane == Lane::read;
    PENSTOCK_TRY(target_.by_launches ? flush_launch(lane, last) : flush_batch(lane, last));
  }
  return {};
}

std::uint64_t* StreamWords::in_pool(const coll::DirectOp& op) const {
  return reinterpret_cast<std::uint64_t*>(movement_.in_pool(core_.word_at(op)));
}

/// Orders a write behind all that the stream was given before, by a fence.
Result<void> StreamWords::flush_batch(Lane lane, bool last) {
  constexpr std::size_t most = 256;
  auto& pending = pending_[index_of(lane)];
  std::vector<cuda::BatchOp> ops;
  for (const coll::DirectOp& op : pending)
    ops.push_back({.operation = waits(op) ? cuda::batch_wait_value_64 : cuda::batch_write_value_64,
                   .at = reinterpret_cast<cuda::DevicePointer>(in_pool(op)),
                   .value = target_.turn.value(op),
                   .flags = waits(op) ? cuda::wait_value_geq : cuda::write_value_default});
  pending.clear();
  if (last)
    ops.push_back({.operation = cuda::batch_write_value_64,
                   .at = words_->at(done),
                   .value = target_.turn.number,
                   .flags = cuda::write_value_default});
  for (std::size_t at = 0; at < ops.size(); at += most) {
    const auto count = static_cast<unsigned>(std::min(most, ops.size() - at));
    PENSTOCK_TRY(device_->driver().check(
        device_->driver().batch(target_.lanes->stream(lane), count, ops.data() + at, 0),
        "waits for words of the pool"));
    PENSTOCK_TRY(target_.lanes->count(lane, count));
  }
  return {};
}

void StreamWords::describe(LaunchWords& launch, std::uint64_t half) const {
  launch.epoch = reinterpret_cast<Epoch*>(epoch_);
  launch.number = at(number);
  launch.begun = at(begun);
  launch.stops = at(stops);
  launch.last = last_;
  launch.half = static_cast<std::uint32_t>(half);
}

Result<void> StreamWords::flush_launch(Lane lane, bool last) {
  constexpr unsigned threads = 160;
  auto& pending = pending_[index_of(lane)];
  const bool begins = begins_ && lane == Lane::read;
  if (pending.empty() && !begins && !last) return {};
  WordOps ops;
  describe(ops, target_.turn.half);
  for (const coll::DirectOp& op : pending)
    ops.op[ops.count++] = {in_pool(op), static_cast<std::uint32_t>(op.low), kind_of(op)};
  pending.clear();
  if (last) ops.done = done_word();
  if (begins) ops.begins = 1;
  begins_ = begins_ && !begins;
  const cuda::Function kernel = PENSTOCK_TRY(device_->words_kernel());
  PENSTOCK_TRY(device_->launch(kernel, 1, threads, &ops, target_.lanes->stream(lane),
                               "a kernel that waits for words of the pool"));
  return target_.lanes->count(lane);
}

}  // namespace penstock::gpu
