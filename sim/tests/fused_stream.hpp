// The kernel of gpu/fused.hpp on simulated nodes: a block of two threads, out of step, whose stores
// to the pool go past all caches in any order that no fence forbids. A barrier of the block orders
// only what its threads do among themselves; for others, only a thread's fence then orders what all
// of them did before. A proof may leave out one barrier or fence of the kernel.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "coll/communicator.hpp"
#include "coll/direct.hpp"
#include "coll/test_calls.hpp"
#include "gpu/fused_arguments.hpp"
#include "pool/pool.hpp"

namespace penstock::sim {

using coherence::Site;
using coherence::Weakening;

inline constexpr std::uint32_t fused_block_threads = 2;

/// Shared by the threads.
struct FusedBlock {
  const coherence::Memory memory;
  const std::byte* const pool;
  const std::uint64_t pool_bytes;
  const std::function<void()> pause;
  std::uint64_t arrivals = 0, failures = 0;  ///< at barriers
  std::uint64_t fences = 0;                  ///< fences that were begun
  std::array<std::uint64_t, fused_block_threads> fenced{};

  bool has(const void* at) const {
    const auto* const byte = static_cast<const std::byte*>(at);
    return byte >= pool && byte < pool + pool_bytes;
  }
};

class FusedThread {
 public:
  FusedThread(FusedBlock& block, std::uint32_t thread) : block_(block), thread_(thread) {}

  std::uint32_t thread() const { return thread_; }
  std::uint32_t threads() const { return fused_block_threads; }
  std::uint64_t load(const std::uint64_t* word) const {
    serve();
    return block_.has(word) ? block_.memory.observe_word(word) : *word;
  }
  void store(std::uint64_t* word, std::uint64_t value) const {
    pause();  // others may be done with theirs before: late by some operations
    block_.has(word) ? block_.memory.publish_word(word, value) : void(*word = value);
  }
  /// Stores of a GPU leave it in the end.
  void pause() const {
    constexpr std::uint64_t looks_between_fences = 8;
    if (!serve() && ++looks_ % looks_between_fences == 0) block_.memory.store_fence();
    block_.pause();
  }
  void sync_threads(Site site = Site::here()) const {
    if (!coherence::weakened(Weakening::wait, site)) arrive();
  }
  bool sync_and(bool goes_on, Site site = Site::here()) const {
    if (coherence::weakened(Weakening::wait, site)) return goes_on;
    if (!goes_on) ++block_.failures;
    arrive();
    const bool all = block_.failures == 0;
    arrive();
    return all;
  }
  void release_fence(Site site = Site::here()) const {
    if (coherence::weakened(Weakening::store_fence, site)) return;
    const std::uint64_t wanted = ++block_.fences;
    for (const std::uint64_t& fenced : block_.fenced)
      while (fenced < wanted) pause();
  }
  void copy(const gpu::FusedCall::Move& move, const void* from, std::uint32_t first) const {
    for_lines(move, first, [&](std::uint64_t at, std::uint64_t bytes) {
      std::array<std::byte, coherence::line_bytes> line;
      take(line.data(), static_cast<const std::byte*>(from) + at, bytes);
      put(static_cast<std::byte*>(move.to) + at, line.data(), bytes);
    });
  }
  template <class Format>
  void combine(const gpu::FusedCall& call, const gpu::FusedCall::Move& move,
               std::uint32_t first) const {
    const coll::WordArithmetic arithmetic;
    for_lines(move, first, [&](std::uint64_t at, std::uint64_t bytes) {
      std::array<std::byte, coherence::line_bytes> sum, value;
      for (std::uint32_t k = 0; k < move.operands; ++k) {
        take(value.data(), static_cast<const std::byte*>(call.operand[move.first + k]) + at, bytes);
        if (k == 0) arithmetic.first(sum.data(), value.data(), bytes);
        if (k != 0) arithmetic.add(sum.data(), value.data(), bytes);
      }
      put(static_cast<std::byte*>(move.to) + at, sum.data(), bytes);
    });
  }

 private:
  /// Another thread's fence also covers this thread's stores: they must be at the device before a
  /// store of that thread. So this thread orders them as soon as it does anything, before it does
  /// more.
  bool serve() const {
    const std::uint64_t wanted = block_.fences;
    if (block_.fenced[thread_] == wanted) return false;
    block_.memory.full_fence();
    block_.fenced[thread_] = wanted;
    return true;
  }
  /// Arrives at a barrier; a barrier ends when all threads have arrived equally often.
  void arrive() const {
    const std::uint64_t all = (++block_.arrivals + threads() - 1) / threads() * threads();
    while (block_.arrivals < all) pause();
  }
  template <class Visit>
  void for_lines(const gpu::FusedCall::Move& move, std::uint32_t first, const Visit& visit) const {
    constexpr std::uint64_t line = coherence::line_bytes;
    for (std::uint64_t at = first * line; at < move.bytes; at += threads() * line) {
      visit(at, std::min(line, move.bytes - at));
      pause();
    }
  }
  void take(std::byte* to, const std::byte* from, std::uint64_t bytes) const {
    serve();
    block_.has(from) ? block_.memory.observe_bulk(to, from, bytes)
                     : void(std::memcpy(to, from, bytes));
  }
  void put(std::byte* to, const std::byte* from, std::uint64_t bytes) const {
    block_.has(to) ? block_.memory.publish_bulk(to, from, bytes)
                   : void(std::memcpy(to, from, bytes));
  }

  FusedBlock& block_;
  const std::uint32_t thread_;
  mutable std::uint64_t looks_ = 0;
};

/// Launches of a rank, one after the other; like TestStreams.
class FusedStream {
 public:
  /// `counts`: the number of the last collective, if launches count their calls themselves.
  FusedStream(coll::Communicator& comm, pool::Pool& pool, std::uint64_t area, std::uint64_t* counts,
              std::function<void()> pause)
      : comm_(comm),
        area_(pool.base() + area),
        counts_(counts),
        block_{.memory = pool.memory(),
               .pool = pool.base(),
               .pool_bytes = pool.info().bytes,
               .pause = std::move(pause)} {
    for (std::uint32_t i = 0; i < fused_block_threads; ++i)
      threads_[i] = std::thread([this, i] { run(i); });
  }
  ~FusedStream() {
    ends_ = true;
    for (auto& thread : threads_) thread.join();
  }
  FusedStream(const FusedStream&) = delete;
  FusedStream& operator=(const FusedStream&) = delete;

  void enqueue(coll::Direct& direct, std::shared_ptr<const coll::Prepared> prepared,
               std::byte* input, std::byte* output) {
    auto call = std::make_unique<Launch>();
    call->by_host = counts_ == nullptr;
    if (call->by_host)
      call->turn = direct.next();
    else
      call->turn.half = direct.take_half();
    call->scratch.resize(prepared->schedule.scratch_bytes);
    call->prepared = std::move(prepared);
    call->input = input;
    call->output = output;
    describe(*call, direct);
    if (call->by_host) direct.note(call->prepared->direct, call->turn);
    calls_.push_back(std::move(call));
  }
  const std::uint64_t* done() const { return &done_; }
  void stop() { stops_ = 1; }
  /// As the watchdog of a GPU learns it, where it can.
  bool are_done() const {
    return calls_.empty() || (calls_.back()->by_host && done_ == calls_.back()->turn.number);
  }
  bool is_drained() const { return ended_[0] == calls_.size() && ended_[1] == calls_.size(); }
  const void* in_progress() const { return is_drained() ? nullptr : current(); }
  Result<void> look(coll::Direct& direct, coll::Missing& missing) const {
    const Launch& call = *current();
    if (call.by_host) return direct.look("a call", &call.prepared->direct, call.turn, missing);
    coll::DirectTurn turn;
    turn.number = begun_;
    return direct.look("a call", nullptr, turn, missing);
  }

 private:
  static constexpr int pauses_at_the_end = 6;  ///< stores may be on their way for a while
  struct Launch {
    std::shared_ptr<const coll::Prepared> prepared;
    coll::DirectTurn turn;
    bool by_host = true;
    std::byte *input = nullptr, *output = nullptr;
    std::vector<std::byte> scratch;
    gpu::FusedCall arguments;
  };
  struct Places {
    FusedStream& stream;
    Launch& call;

    std::uint64_t* word(const coll::DirectOp& op) const {
      return reinterpret_cast<std::uint64_t*>(stream.area_ + op.at);
    }
    std::byte* at(const coll::Span& span) const {
      std::byte* begin = call.input;
      if (span.buffer == coll::Buffer::output) begin = call.output;
      if (span.buffer == coll::Buffer::scratch) begin = call.scratch.data();
      return begin + span.offset;
    }
    std::byte* chunk(std::uint32_t rank, std::uint64_t number, std::uint64_t at) const {
      return stream.comm_.chunk_of(*call.prepared, call.turn.half, rank, number) + at;
    }
    void describe(std::uint32_t number, gpu::Moved& moved) const {
      const coll::Schedule& schedule = call.prepared->schedule;
      const coll::Step& step = schedule.steps[number];
      const bool publishes = step.kind == coll::StepKind::publish;
      const auto named = [](std::byte* at) { return reinterpret_cast<cuda::DevicePointer>(at); };
      moved.to = named(publishes ? chunk(stream.comm_.self(), step.chunk, step.at) : at(step.span));
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
  };

  void describe(Launch& call, const coll::Direct& direct) {
    gpu::FusedCall& made = call.arguments;
    made.epoch = &epoch_;
    made.number = counts_;
    made.begun = &begun_;
    made.done = &done_;
    made.stops = &stops_;
    made.begins = call.by_host ? 0 : 1;
    made.half = static_cast<std::uint32_t>(call.turn.half);
    made.turn = {call.turn.number, call.turn.free, call.turn.resumes ? 1u : 0u};
    const Places places{*this, call};
    gpu::FusedArguments arguments(made, places, call.by_host ? &direct : nullptr, call.turn);
    for (const coll::FusedRound& round : call.prepared->fused)
      if (!arguments.add(round)) throw std::length_error("a call that one launch cannot take");
  }

  const Launch* current() const {
    const std::size_t n = std::min(ended_[0], ended_[1]);
    return n < calls_.size() ? calls_[n].get() : nullptr;
  }
  void run(std::uint32_t thread) {
    const FusedThread self(block_, thread);
    for (std::size_t n = 0;;) {
      const bool first = ended_[1 - thread] >= n;  // the previous launch has ended
      if (n == calls_.size() || !first) {
        if (ends_ && n == calls_.size() && ended_[1 - thread] == n) return;
        self.pause();
        continue;
      }
      using Format = coll::Native<std::uint32_t>;
      gpu::CarryingOut<Format, FusedThread>(calls_[n]->arguments, self).carry_out();
      for (int i = 0; i < pauses_at_the_end; ++i) self.pause();
      block_.memory.full_fence();
      ended_[thread] = ++n;
    }
  }

  const coll::Communicator& comm_;
  std::byte* const area_;
  std::uint64_t* const counts_;
  FusedBlock block_;
  gpu::Epoch epoch_;
  std::uint64_t begun_ = 0, done_ = 0, stops_ = 0;
  std::vector<std::unique_ptr<Launch>> calls_;
  std::array<std::size_t, fused_block_threads> ended_{};
  bool ends_ = false;
  std::array<std::thread, fused_block_threads> threads_;
};

}  // namespace penstock::sim
