// Calls whose data one launch each moves, on simulated nodes. A thread of the host leads them, as
// in gpu/proxied.cpp: it opens gates, and the launch sets marks.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "coll/mover.hpp"
#include "pool/pool.hpp"
#include "sim/tests/launches.hpp"

namespace penstock::sim {

class MovedStream {
 public:
  MovedStream(coll::Communicator& comm, pool::Pool& pool, std::uint64_t seed,
              std::function<void()> pause)
      : comm_(comm),
        launches_({.memory = pool.memory(),
                   .pool = pool.base(),
                   .pool_bytes = pool.info().bytes,
                   .pause = std::move(pause),
                   .through_caches = true,
                   .random = std::mt19937_64(seed)}) {}

  /// False: one launch cannot take the call.
  bool enqueue(std::shared_ptr<const coll::Prepared> prepared, std::byte* input,
               std::byte* output) {
    if (!can_combine_at_once(prepared->schedule, input == output)) return false;
    auto call = std::make_unique<Launch>();
    call->collective = comm_.begun() + (calls_.size() - led_) + 1;
    call->prepared = prepared;
    call->input = input;
    call->output = output;
    call->arguments.done = &done_;
    call->arguments.stops = &words_[coll::lane_words];
    call->arguments.turn.number = calls_.size() + 1;
    if (!complete(comm_, *call, Words{words_})) return false;
    calls_.push_back(std::move(prepared));
    launches_.add(std::move(call));
    return true;
  }
  /// Leads the first call that was not led before, which `call` describes.
  Result<void> lead(coll::Call call) {
    const coll::Prepared& prepared = *calls_[led_];
    Mover mover(words_, ++led_);
    call.mover = &mover;
    auto done = comm_.run(call, prepared);
    if (done) mover.allow(coll::Lane::read, prepared.program.of(coll::Lane::read).size());
    return done;
  }
  /// Launches that wait move nothing more.
  void release() {
    words_[coll::lane_words] = 1;
    for (const coll::Lane lane : {coll::Lane::write, coll::Lane::read})
      words_[coll::gate_word(lane)] = gpu::released_word;
  }
  bool are_over() const { return launches_.are_over(); }

 private:
  using HostWords = std::array<std::uint64_t, coll::lane_words + 1>;  ///< the last stops launches
  struct Words {
    HostWords& words;
    std::uint64_t* word(const coll::DirectOp& op) const { return &words[op.at]; }
    bool is_needed(const coll::DirectOp&) const { return true; }
  };
  class Mover : public coll::Mover {
   public:
    Mover(HostWords& words, std::uint64_t turn) : words_(words), turn_(turn) {}
    void allow(coll::Lane lane, std::size_t segment) override {
      words_[coll::gate_word(lane)] = behind(segment);
    }
    bool is_done(coll::Lane lane, std::size_t segment) override {
      return words_[coll::mark_word(lane)] >= behind(segment);
    }
    bool ends_call() const override { return true; }
    Result<void> fetch(std::byte*, const coll::Span&) override { return {}; }
    Result<void> store(const coll::Span&, const std::byte*) override { return {}; }

   private:
    std::uint64_t behind(std::size_t segment) const {
      return turn_ << gpu::word_low_bits | (segment + 1);
    }
    HostWords& words_;
    const std::uint64_t turn_;
  };

  coll::Communicator& comm_;
  HostWords words_{};
  std::uint64_t done_ = 0;
  std::vector<std::shared_ptr<const coll::Prepared>> calls_;
  std::size_t led_ = 0;
  Launches launches_;
};

}  // namespace penstock::sim
