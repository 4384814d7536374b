// The form in which a thread of the host keeps the protocol (coll/lane_run.cpp), writes back and
// invalidates, while streams only move data: for every mode of a pool. Thread and streams wait for
// each other by stream memory operations on host words, which occupy no multiprocessor. A small
// call is one launch instead, which waits for the same words and writes them (fused.hpp).
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "coll/lane_program.hpp"
#include "gpu/communicator.hpp"
#include "gpu/fused_launch.hpp"
#include "gpu/lane_watch.hpp"
#include "gpu/launch_ends.hpp"
#include "schedule/arithmetic.hpp"

namespace penstock::gpu {

class Proxied : public Communicator {
 public:
  static Result<std::unique_ptr<Communicator>> open(coll::Communicator& core,
                                                    const std::vector<Area>& areas,
                                                    std::shared_ptr<const Device> device);
  ~Proxied() override;
  Result<void> enqueue(const Call& call, cuda::Stream stream) override;
  std::optional<Error> error() override;
  bool is_busy() override;
  void abort() override;
  Result<void> drain() override;
  const char* form() const override { return "proxy"; }

 private:
  /// The word behind coll::gate_word() and coll::mark_word(). Not zero: launches wait for nothing.
  static constexpr std::size_t stops = coll::lane_words;
  static constexpr std::uint64_t all_open = released_word;
  struct Submission {
    Call call;
    std::optional<coll::PredefinedArithmetic> arithmetic;  ///< set if a switch may do the call
    std::shared_ptr<const coll::Prepared> prepared;
    std::uint64_t number = 0;  ///< as in coll::Communicator::chunk_of()
    std::uint64_t turn = 0;    ///< of this call among all of GPUs
    bool at_once = false;      ///< by one launch
    /// The value of a gate or a mark behind the first `segments` of a lane.
    std::uint64_t word_behind(std::uint64_t segments) const {
      return (turn << word_low_bits) + segments;
    }
    /// That of the read lane's last gate, which opens when the call is over.
    std::uint64_t word_at_end() const {
      return word_behind(prepared->program.of(Lane::read).size() + 1);
    }
  };
  class Gates;

  Proxied(coll::Communicator& core, std::shared_ptr<const Device> device)
      : core_(core), device_(std::move(device)) {}
  Result<Submission> prepare(const Call& call);
  /// The arguments of a small call's launch on the stream; nullopt: it goes by lanes.
  std::optional<FusedCall> launch_of(const Submission& submitted, cuda::Stream stream) const;
  bool would_wait_for_calls(cuda::Stream stream) const;
  Result<void> issue_at_once(const Submission& submitted, FusedCall& launch, cuda::Stream stream);
  Result<void> issue_by_lanes(const Submission& submitted, cuda::Stream stream);
  Result<void> issue_program(const Submission& submitted, Lanes::Hold& hold);
  Result<void> issue_event(const Submission& submitted, const coll::Event& event,
                           std::array<std::int64_t, coll::lane_count>& joined);
  /// Copies on a separate stream, and waits for the copy.
  Result<void> copy_beside(const std::function<cuda::Status(cuda::Stream)>& copy);
  Result<void> wait_for_gate(Lane lane, std::uint64_t value);
  Result<void> set_mark(Lane lane, std::uint64_t value);
  std::uint64_t* at(std::size_t word) const {
    return reinterpret_cast<std::uint64_t*>(words_->at(word));
  }
  /// Raises the gate of the lane. Never lowers it.
  void allow(Lane lane, std::uint64_t value);
  void run_proxy();
  void run(const Submission& submitted);
  void fail_with(const Error& error);
  void release_streams();
  Result<void> await_room(Lanes::Hold& hold);
  void await_rest() const;
  /// As error(), without looking at the other ranks.
  std::optional<Error> known_error() const;
  /// Ends the current call.
  void cancel() { __atomic_store_n(&cancelled_, 1, __ATOMIC_RELEASE); }

  coll::Communicator& core_;
  std::shared_ptr<const Device> device_;
  std::unique_ptr<Movement> movement_;
  /// The words by which the GPU and the thread wait for each other: they count calls and, below,
  /// their segments, and only grow.
  std::unique_ptr<PinnedWords> words_;
  std::optional<FusedLaunches> fused_;
  std::unique_ptr<LaunchEnds> ends_of_launches_;
  std::unique_ptr<Lanes> lanes_;
  std::unique_ptr<LaneWatch> watch_;    ///< for the proxy, which itself calls no driver
  std::uint64_t number_ = 0;            ///< the last collective enqueued
  std::uint64_t packets_ = 0;           ///< packets to a switch, of all these
  std::uint64_t turn_ = 0;              ///< the last call
  cuda::Stream last_stream_ = nullptr;  ///< that of the last call

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Submission> queue_;  ///< the first one is under way
  std::optional<Error> error_;
  bool others_know_ = false;  ///< the other ranks were told of the error
  bool unsettled_ = false;    ///< a call was enqueued since the others were last found alive
  std::atomic<std::uint64_t> submitted_{0};
  bool ends_ = false;
  volatile int cancelled_ = 0;
  std::thread proxy_;
};

}  // namespace penstock::gpu
