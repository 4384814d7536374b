// Calls of the direct form by one launch each, on simulated nodes.
#pragma once

#include <functional>
#include <memory>
#include <stdexcept>
#include <utility>
#include <vector>

#include "coll/direct.hpp"
#include "pool/pool.hpp"
#include "sim/tests/launches.hpp"

namespace penstock::sim {

/// Launches of a rank, one after the other; like TestStreams.
class FusedStream {
 public:
  /// `counts`: the number of the last collective, if launches count their calls themselves.
  FusedStream(coll::Communicator& comm, pool::Pool& pool, std::uint64_t area, std::uint64_t* counts,
              std::function<void()> pause)
      : comm_(comm),
        area_(pool.base() + area),
        counts_(counts),
        launches_({.memory = pool.memory(),
                   .pool = pool.base(),
                   .pool_bytes = pool.info().bytes,
                   .pause = std::move(pause)}) {}

  void enqueue(coll::Direct& direct, std::shared_ptr<const coll::Prepared> prepared,
               std::byte* input, std::byte* output) {
    Submitted submitted{.prepared = prepared, .by_host = counts_ == nullptr};
    if (submitted.by_host) {
      submitted.turn = direct.next(*prepared);
      if (prepared->flagged) submitted.turn.flagged += skipped_;
    } else if (!prepared->flagged) {
      submitted.turn.half = direct.take_half();
    }
    auto call = std::make_unique<Launch>();
    call->collective = submitted.turn.half;
    call->prepared = std::move(prepared);
    call->input = input;
    call->output = output;
    if (call->prepared->flagged)
      describe_flagged(*call, submitted, direct);
    else
      describe(*call, submitted, direct);
    if (submitted.by_host) direct.note(*call->prepared, submitted.turn);
    calls_.push_back(std::move(submitted));
    launches_.add(std::move(call));
  }
  const std::uint64_t* done() const { return &done_; }
  void stop() { stops_ = 1; }
  /// For calls to come, when none is in progress. An even number: blocks go on by turns.
  void skip_flagged_calls(std::uint64_t calls) {
    skipped_ += calls;
    state_.calls += calls;
  }
  /// As the watchdog of a GPU learns it, where it can.
  bool are_done() const {
    return calls_.empty() || (calls_.back().by_host && done_ == calls_.back().turn.number);
  }
  bool is_drained() const { return launches_.are_over(); }
  const void* in_progress() const { return is_drained() ? nullptr : &calls_[launches_.first()]; }
  Result<void> look(coll::Direct& direct, coll::Missing& missing) const {
    const Submitted& call = calls_[launches_.first()];
    if (call.by_host) return direct.look("a call", call.prepared.get(), call.turn, missing);
    coll::DirectTurn turn;
    turn.number = begun_;
    return direct.look("a call", nullptr, turn, missing);
  }

 private:
  struct Submitted {
    std::shared_ptr<const coll::Prepared> prepared;
    coll::DirectTurn turn;
    bool by_host = true;
  };
  struct Words {
    std::byte* const area;
    const coll::Direct* const direct;  ///< null for a call that counts itself
    const coll::DirectTurn& turn;

    std::uint64_t* word(const coll::DirectOp& op) const {
      return reinterpret_cast<std::uint64_t*>(area + op.at);
    }
    bool is_needed(const coll::DirectOp& op) const {
      return direct == nullptr || direct->is_needed(op, turn);
    }
  };

  void describe_words(gpu::LaunchWords& made, const Submitted& submitted) {
    made.epoch = &epoch_;
    made.number = counts_;
    made.begun = &begun_;
    made.done = &done_;
    made.stops = &stops_;
    made.begins = submitted.by_host ? 0 : 1;
    made.half = static_cast<std::uint32_t>(submitted.turn.half);
  }
  void describe(Launch& call, const Submitted& submitted, const coll::Direct& direct) {
    gpu::FusedCall& made = call.arguments;
    const coll::DirectTurn& turn = submitted.turn;
    describe_words(made, submitted);
    made.turn = {turn.number, turn.free, turn.resumes ? 1u : 0u};
    if (!complete(comm_, call, Words{area_, submitted.by_host ? &direct : nullptr, turn}))
      throw std::length_error("a call that one launch cannot take");
  }

  /// As gpu::FlaggedLaunches::complete().
  void describe_flagged(Launch& call, const Submitted& submitted, const coll::Direct& direct) {
    gpu::FlaggedCall& made = call.flagged.emplace();
    describe_words(made, submitted);
    made.state = &state_;
    if (submitted.by_host) {
      made.turn = submitted.turn.number;
      made.calls = submitted.turn.flagged;
      made.awaits_readers = !direct.is_block_free(submitted.turn);
    }
    const auto word = [&](std::uint32_t rank, std::uint32_t to) {
      const std::byte* const at = direct.finished_word(rank, to);
      return reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(at));
    };
    made.finished = word(0, comm_.self());
    made.tells = word(comm_.self(), 0);
    made.tells_stride = static_cast<std::uint32_t>(word(comm_.self(), 1) - made.tells);
    call.scratch.resize(call.prepared->schedule.scratch_bytes);
    const Words none{area_, nullptr, submitted.turn};
    const LaunchPlaces<Words> places(comm_, call, none);
    gpu::FlaggedArguments(made, comm_, *call.prepared, places).add_all(false);
  }

  const coll::Communicator& comm_;
  std::byte* const area_;
  std::uint64_t* const counts_;
  gpu::Epoch epoch_;
  gpu::FlaggedState state_;
  std::uint64_t skipped_ = 0;
  std::uint64_t begun_ = 0, done_ = 0, stops_ = 0;
  std::vector<Submitted> calls_;
  Launches launches_;
};

}  // namespace penstock::sim
