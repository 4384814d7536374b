// The form in which a thread of the host keeps the protocol (coll/lane_run.cpp), writes back and
// invalidates, while streams only move data: for every mode of a pool. Thread and streams wait for
// each other by stream memory operations on host words, which occupy no multiprocessor.
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

#include "coll/arithmetic.hpp"
#include "coll/lane_program.hpp"
#include "gpu/communicator.hpp"
#include "gpu/lane_watch.hpp"

namespace penstock::gpu {

class Proxied : public Communicator {
 public:
  static Result<std::unique_ptr<Communicator>> open(coll::Communicator& core,
                                                    const std::vector<Area>& areas,
                                                    std::shared_ptr<const Device> device);
  ~Proxied() override;
  Result<void> enqueue(const Call& call, cuda::Stream stream) override;
  std::optional<Error> error() override;
  void abort() override;
  Result<void> drain() override;
  const char* form() const override { return "proxy"; }

 private:
  static constexpr std::size_t gates = 0, marks = both_lanes.size();
  static constexpr std::uint64_t all_open = 1ull << 62;
  struct Submission {
    Call call;
    std::optional<coll::PredefinedArithmetic> arithmetic;  ///< set if a switch may do the call
    std::shared_ptr<const coll::Prepared> prepared;
    std::uint64_t number = 0;                            ///< as in coll::Communicator::chunk_of()
    std::array<std::uint64_t, coll::lane_count> base{};  ///< segments of earlier calls
    std::uint64_t last = 0;  ///< a gate of the read lane, which opens when the call is over
  };
  class Gates;

  Proxied(coll::Communicator& core, std::shared_ptr<const Device> device)
      : core_(core), device_(std::move(device)) {}
  Result<Submission> prepare(const Call& call);
  Result<void> issue(const Submission& submitted, cuda::Stream stream);
  Result<void> issue(const Submission& submitted, Lanes::Hold& hold);
  Result<void> issue(const Submission& submitted, const coll::Event& event,
                     std::array<std::int64_t, coll::lane_count>& joined);
  /// Copies on a separate stream, and waits for the copy.
  Result<void> copy_beside(const std::function<cuda::Status(cuda::Stream)>& copy);
  Result<void> wait_for_gate(Lane lane, std::uint64_t segments);
  Result<void> set_mark(Lane lane, std::uint64_t segments);
  std::atomic<std::uint64_t>& word(std::size_t kind, Lane lane) const {
    return (*words_)[kind + index_of(lane)];
  }
  /// Lets the first `segments` of the lane begin. Never withdraws permission.
  void allow(Lane lane, std::uint64_t segments);
  void run_proxy();
  void run(const Submission& submitted);
  void fail_with(const Error& error);
  void release_streams();
  /// As error(), without looking at the other ranks.
  std::optional<Error> known_error() const;
  /// Ends the current call.
  void cancel() { __atomic_store_n(&cancelled_, 1, __ATOMIC_RELEASE); }

  coll::Communicator& core_;
  std::shared_ptr<const Device> device_;
  std::unique_ptr<Movement> movement_;
  /// The words by which the streams and the thread wait for each other: both count segments, and
  /// only grow.
  std::unique_ptr<PinnedWords> words_;
  std::unique_ptr<Lanes> lanes_;
  std::unique_ptr<LaneWatch> watch_;  ///< for the proxy, which itself calls no driver
  std::uint64_t number_ = 0;          ///< the last collective enqueued
  std::uint64_t packets_ = 0;         ///< packets to a switch, of all these
  std::array<std::uint64_t, coll::lane_count> segments_{};

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
