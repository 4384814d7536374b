// Two "streams of a GPU" for tests: threads that run the program of calls that a GPU does by
// itself. Their stores bypass all caches, in any order that no fence forbids, and their loads come
// from the device, like a GPU's if the pool is uncached or coherent.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "coll/communicator.hpp"
#include "coll/direct.hpp"
#include "schedule/test_calls.hpp"

namespace penstock::coll {

class TestStreams {
 public:
  struct Submitted {
    std::shared_ptr<const Prepared> prepared;
    DirectTurn turn;
    std::vector<DirectOp> ops;  ///< only the ops that this turn needs
    std::byte *input = nullptr, *output = nullptr;
    std::vector<std::byte> scratch;
    std::array<std::size_t, lane_count> next{};  ///< earlier ops are done, or not this lane's
    bool over(std::size_t lane) const { return next[lane] == ops.size(); }
    bool over() const { return over(0) && over(1); }
  };

  /// `pause`: called between two polls of a waiting thread.
  TestStreams(const Communicator& comm, const coherence::Memory& memory, std::byte* area,
              std::function<void()> pause)
      : comm_(comm), memory_(memory), area_(area), pause_(std::move(pause)) {
    for (std::size_t lane = 0; lane < lane_count; ++lane)
      threads_[lane] = std::thread([this, lane] { run(lane); });
  }
  ~TestStreams() {
    ends_ = true;
    for (auto& thread : threads_) thread.join();
  }
  TestStreams(const TestStreams&) = delete;
  TestStreams& operator=(const TestStreams&) = delete;

  /// Does the same as gpu::Direct.
  const Submitted& enqueue(Direct& direct, std::shared_ptr<const Prepared> prepared,
                           std::byte* input, std::byte* output) {
    auto call = std::make_unique<Submitted>();
    call->turn = direct.next(*prepared);
    for (const DirectOp& op : prepared->direct)
      if (direct.is_needed(op, call->turn)) call->ops.push_back(op);
    direct.note(*prepared, call->turn);
    call->scratch.resize(prepared->schedule.scratch_bytes);
    call->prepared = std::move(prepared);
    call->input = input;
    call->output = output;
    calls_.push_back(std::move(call));
    return *calls_.back();
  }
  const std::uint64_t* done() const { return &done_; }
  void stop() {}  ///< does nothing: only launches have a stop word
  /// Does the same as a GPU's watchdog.
  Result<void> look(Direct& direct, Missing& missing) const {
    const Submitted& call = *in_progress();
    return direct.look("a call", call.prepared.get(), call.turn, missing);
  }
  /// The first call that is not over; null if there is none.
  const Submitted* in_progress() const {
    for (const auto& call : calls_)
      if (!call->over()) return call.get();
    return nullptr;
  }
  /// As a GPU's watchdog sees it: by a word that is published after all others.
  bool are_done() const { return is_drained(); }
  /// Everything that the streams have stored is at the device.
  bool is_drained() const { return drained_[0] == calls_.size() && drained_[1] == calls_.size(); }

 private:
  void run(std::size_t lane) {
    for (std::size_t n = 0;;) {
      if (n == calls_.size()) {
        if (drained_[lane] != n) memory_.full_fence();
        drained_[lane] = n;
        if (ends_ && n == calls_.size()) return;
        pause_();
        continue;
      }
      Submitted& call = *calls_[n];
      for (int looks = 1; n > 0 && !calls_[n - 1]->over(); ++looks) look_again(looks);
      for (std::size_t& next = call.next[lane]; next < call.ops.size(); ++next)
        if (static_cast<std::size_t>(call.ops[next].lane) == lane) carry_out(call, next);
      ++n;
      if (call.over()) done_ = call.turn.number;
    }
  }

  /// A GPU's stores leave it in the end, even while it waits.
  void look_again(int looks) {
    constexpr int looks_between_fences = 8;
    if (looks % looks_between_fences == 0) memory_.store_fence();
    pause_();
  }

  void carry_out(Submitted& call, std::size_t number) {
    const DirectOp& op = call.ops[number];
    const std::size_t other = 1 - static_cast<std::size_t>(op.lane);
    switch (op.kind) {
      case DirectOp::Kind::free:
      case DirectOp::Kind::await:
        for (int looks = 1; memory_.observe_word(area_ + op.at) < call.turn.value(op); ++looks)
          look_again(looks);
        return;
      case DirectOp::Kind::join:
        for (int looks = 1; call.next[other] < number; ++looks) look_again(looks);
        return;
      case DirectOp::Kind::move:
        return move(call, call.prepared->schedule.steps[op.step]);
      default:
        if (op.fenced) memory_.store_fence();
        return memory_.publish_word(area_ + op.at, call.turn.value(op));
    }
  }

  void move(Submitted& call, const Step& step) {
    std::byte* const here = at(call, step.span);
    if (step.kind == StepKind::publish)
      memory_.publish_bulk(chunk(call, comm_.self(), step.chunk, step.at), here, step.span.bytes);
    if (step.kind == StepKind::copy)
      memory_.observe_bulk(here, chunk(call, step.rank, step.chunk, step.at), step.span.bytes);
    if (step.kind == StepKind::move) std::memmove(here, at(call, step.from), step.span.bytes);
    if (step.kind == StepKind::combine) combine(call, step);
  }
  void combine(Submitted& call, const Step& step) {
    const WordArithmetic arithmetic;
    std::vector<std::byte> sum(step.span.bytes), value(step.span.bytes);
    for (std::uint32_t i = 0; i < step.operand_count; ++i) {
      const Operand& operand = call.prepared->schedule.operands[step.first_operand + i];
      if (operand.own) std::memcpy(value.data(), at(call, operand.span), value.size());
      if (!operand.own)
        memory_.observe_bulk(value.data(), chunk(call, operand.rank, operand.chunk, operand.at),
                             value.size());
      if (i == 0) arithmetic.first(sum.data(), value.data(), sum.size());
      if (i != 0) arithmetic.add(sum.data(), value.data(), sum.size());
    }
    std::memcpy(at(call, step.span), sum.data(), sum.size());
  }
  static std::byte* at(Submitted& call, const Span& span) {
    std::byte* begin = call.input;
    if (span.buffer == Buffer::output) begin = call.output;
    if (span.buffer == Buffer::scratch) begin = call.scratch.data();
    return begin + span.offset;
  }
  std::byte* chunk(const Submitted& call, std::uint32_t rank, std::uint64_t number,
                   std::uint64_t at) const {
    return comm_.chunk_of(*call.prepared, call.turn.half, rank, number) + at;
  }

  const Communicator& comm_;
  const coherence::Memory memory_;
  std::byte* const area_;
  const std::function<void()> pause_;
  std::vector<std::unique_ptr<Submitted>> calls_;
  std::array<std::size_t, lane_count> drained_{};
  std::uint64_t done_ = 0;
  bool ends_ = false;
  std::array<std::thread, lane_count> threads_;
};

}  // namespace penstock::coll
