// The form in which no thread of the host takes part in moving data, for pools whose memory GPUs
// and hosts see alike (hardware and uncached mode): the streams themselves wait for words of the
// pool, and write such words for the others' GPUs (coll/direct_program.hpp). A watchdog thread of
// the host sleeps, and looks now and then whether a rank has died; if so it raises the words that
// this GPU waits for. Protocol: docs/protocols/collectives.md, "Without a thread of the host".
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/awake.hpp"
#include "coll/direct.hpp"
#include "gpu/communicator.hpp"
#include "gpu/flagged_launch.hpp"
#include "gpu/fused_launch.hpp"
#include "gpu/lane_watch.hpp"
#include "gpu/stream_words.hpp"
#include "group/waiting.hpp"

namespace penstock::gpu {

class Direct : public Communicator {
 public:
  static Result<std::unique_ptr<Communicator>> open(coll::Communicator& core,
                                                    const std::vector<Area>& areas,
                                                    std::shared_ptr<const Device> device);
  ~Direct() override;
  Result<void> enqueue(const Call& call, cuda::Stream stream) override;
  /// Also looks for failures of other ranks: once a stream has done a call, it tells whether the
  /// call succeeded.
  std::optional<Error> error() override;
  bool is_busy() override;
  void abort() override;
  Result<void> drain() override;
  const char* form() const override { return "direct"; }

 private:
  struct Submission {
    std::string name;
    std::shared_ptr<const coll::Prepared> prepared;
    coll::DirectTurn turn;
    std::uint64_t timeout_ns = 0;
    bool counts_itself = false;  ///< a call by launches
  };
  Direct(coll::Communicator& core, std::shared_ptr<const Device> device)
      : core_(core), device_(std::move(device)) {}
  Result<Submission> prepare(const Call& call, bool captures);
  Result<void> number(Submission& submitted, bool captures);
  Result<void> issue(const Call& call, const Submission& submitted, bool captures,
                     cuda::Stream stream);
  /// The arguments of a small call's launch; nullopt: it goes by lanes.
  std::optional<FusedCall> launch_of(const Call& call, const Submission& submitted) const;
  Result<void> issue_flagged(const Call& call, const Submission& submitted, bool captures,
                             cuda::Stream stream, Lanes::Hold& hold);
  /// `launch(stream)`: launches the call.
  template <class Launch>
  Result<void> issue_at_once(bool captures, cuda::Stream stream, Lanes::Hold& hold,
                             const Launch& launch);
  Result<void> issue_by_lanes(const Call& call, const Submission& submitted, Lanes& lanes,
                              cuda::Stream stream, Lanes::Hold& hold);
  Result<void> issue_program(const Call& call, const Submission& submitted, Lanes& lanes,
                             Lanes::Hold& hold);
  Result<void> issue_op(const Call& call, const Submission& submitted, Lanes& lanes,
                        const coll::DirectOp& op);
  /// Waits until the lanes take another operation at once.
  Result<void> await_room(Lanes& lanes, Lanes::Hold& hold);
  std::uint64_t last_done() const;
  bool is_over();
  Result<void> await_rest() const;

  void run_watchdog();
  Result<void> look();
  Result<void> check_time(const Submission& submitted);
  void show(const Submission& submitted);
  void notify_others();
  void release_streams(std::unique_lock<std::mutex>& lock);
  void fail_with(const Error& error);
  /// As error(), without looking at the other ranks.
  std::optional<Error> known_error();

  coll::Communicator& core_;
  std::shared_ptr<const Device> device_;
  std::unique_ptr<Movement> movement_;
  std::unique_ptr<StreamWords> words_;
  std::optional<FusedLaunches> fused_;
  std::unique_ptr<FlaggedLaunches> flagged_;
  std::unique_ptr<Lanes> lanes_, captured_lanes_;
  std::unique_ptr<LaneWatch> watch_;  ///< for the watchdog, which itself calls no driver
  std::uint64_t last_ = 0;            ///< the last call that the host numbered

  std::mutex mutex_;  ///< guards all members below, and the host's part in the protocol
  std::condition_variable changed_;
  std::deque<Submission> under_way_;  ///< of calls by launches only the last one enqueued
  bool by_launches_ = false;          ///< from the first call in a graph on, or from the start
  bool unsettled_ = false;            ///< a call was enqueued since the last drain()
  std::optional<Error> error_;
  bool others_know_ = false;  ///< the other ranks were told of the error
  bool ends_ = false;
  coll::Missing missing_;
  std::uint64_t looked_at_ = 0;  ///< the call to which the times belong
  std::optional<base::AwakeClock> waited_;
  std::optional<group::Waiting> shown_;  ///< set while that call waits
  std::uint64_t next_warning_ns_ = 0;
  std::thread watchdog_;
};

}  // namespace penstock::gpu
