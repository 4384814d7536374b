// Launches of a simulated rank, one after the other, as a stream of its GPU does them: where the
// data of a call lies, and the two threads of each block.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "coll/communicator.hpp"
#include "coll/prepared.hpp"
#include "gpu/flagged_arguments.hpp"
#include "gpu/fused_arguments.hpp"
#include "sim/tests/flagged_block.hpp"

namespace penstock::sim {

/// A call of a rank as one launch.
struct Launch {
  std::shared_ptr<const coll::Prepared> prepared;
  std::uint64_t collective = 0;  ///< as in coll::Communicator::chunk_of()
  std::byte *input = nullptr, *output = nullptr;
  std::vector<std::byte> scratch;
  gpu::FusedCall arguments;
  std::optional<gpu::FlaggedCall> flagged;  ///< then these are the arguments
};

/// `Words`: word(op), is_needed(op).
template <class Words>
class LaunchPlaces {
 public:
  LaunchPlaces(const coll::Communicator& comm, Launch& call, const Words& words)
      : comm_(comm), call_(call), words_(words) {}

  std::uint64_t* word(const coll::DirectOp& op) const { return words_.word(op); }
  bool is_needed(const coll::DirectOp& op) const { return words_.is_needed(op); }
  std::byte* at(const coll::Span& span) const {
    std::byte* begin = call_.input;
    if (span.buffer == coll::Buffer::output) begin = call_.output;
    if (span.buffer == coll::Buffer::scratch) begin = call_.scratch.data();
    return begin + span.offset;
  }
  std::byte* in_pool(std::byte* memory) const { return memory; }
  void describe(std::uint32_t number, gpu::Moved& moved) const {
    const coll::Schedule& schedule = call_.prepared->schedule;
    const coll::Step& step = schedule.steps[number];
    const bool publishes = step.kind == coll::StepKind::publish;
    const auto named = [](std::byte* at) { return reinterpret_cast<cuda::DevicePointer>(at); };
    moved.to = named(publishes ? chunk(comm_.self(), step.chunk, step.at) : at(step.span));
    moved.bytes = step.span.bytes;
    moved.operands = 1;
    if (publishes) moved.from[0] = named(at(step.span));
    if (step.kind == coll::StepKind::copy)
      moved.from[0] = named(chunk(step.rank, step.chunk, step.at));
    if (step.kind == coll::StepKind::move) moved.from[0] = named(at(step.from));
    moved.combines = step.kind == coll::StepKind::combine;
    if (!moved.combines) return;
    moved.operands = step.operand_count;
    for (std::uint32_t i = 0; i < step.operand_count; ++i) {
      const coll::Operand& operand = schedule.operands[step.first_operand + i];
      moved.from[i] =
          named(operand.own ? at(operand.span) : chunk(operand.rank, operand.chunk, operand.at));
    }
  }

 private:
  std::byte* chunk(std::uint32_t rank, std::uint64_t number, std::uint64_t at) const {
    return comm_.chunk_of(*call_.prepared, call_.collective, rank, number) + at;
  }

  const coll::Communicator& comm_;
  Launch& call_;
  const Words& words_;
};

/// Completes the arguments. False: one launch cannot take the call.
template <class Words>
bool complete(const coll::Communicator& comm, Launch& call, const Words& words) {
  call.scratch.resize(call.prepared->schedule.scratch_bytes);
  const LaunchPlaces<Words> places(comm, call, words);
  gpu::FusedArguments arguments(call.arguments, places);
  for (const coll::FusedRound& round : call.prepared->fused)
    if (!arguments.add(round)) return false;
  return true;
}

class Launches {
 public:
  explicit Launches(FusedBlock block) : block_(std::move(block)) {
    for (std::uint32_t i = 0; i < fused_block_threads; ++i)
      threads_[i] = std::thread([this, i] { run(i); });
  }
  ~Launches() {
    ends_ = true;
    for (auto& thread : threads_) thread.join();
  }
  Launches(const Launches&) = delete;
  Launches& operator=(const Launches&) = delete;

  void add(std::unique_ptr<Launch> call) { calls_.push_back(std::move(call)); }
  bool are_over() const { return ended_[0] == calls_.size() && ended_[1] == calls_.size(); }
  /// The number of the first launch that is not over.
  std::size_t first() const { return std::min(ended_[0], ended_[1]); }

 private:
  static constexpr int pauses_at_the_end = 6;  ///< stores may be on their way for a while

  void run(std::uint32_t thread) {
    const FlaggedThread self(block_, shared_, thread);
    for (std::size_t n = 0;;) {
      const bool first = ended_[1 - thread] >= n;  // the previous launch has ended
      if (n == calls_.size() || !first) {
        if (ends_ && n == calls_.size() && ended_[1 - thread] == n) return;
        self.pause();
        continue;
      }
      using Format = coll::Native<std::uint32_t>;
      if (calls_[n]->flagged)
        gpu::CarryingFlagged<Format, FlaggedThread>(*calls_[n]->flagged, self).carry_out();
      else
        gpu::CarryingOut<Format, FusedThread>(calls_[n]->arguments, self).carry_out();
      for (int i = 0; i < pauses_at_the_end; ++i) self.pause();
      self.finish();
      ended_[thread] = ++n;
    }
  }

  FusedBlock block_;
  FlaggedMemory shared_;
  std::vector<std::unique_ptr<Launch>> calls_;
  std::array<std::size_t, fused_block_threads> ended_{};
  bool ends_ = false;
  std::array<std::thread, fused_block_threads> threads_;
};

}  // namespace penstock::sim
