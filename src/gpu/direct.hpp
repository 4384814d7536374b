// The form without a thread of the host on the way of the data, for pools whose memory GPUs and
// hosts see alike (hardware and uncached mode): the streams wait for words of the pool itself, and
// tell the others' GPUs by such words (coll/direct_program.hpp). A watchdog of the host sleeps, and
// looks now and then whether a rank has died: then it raises the words that this GPU waits for.
// Protocol: docs/protocols/collectives.md, "Without a thread of the host".
#pragma once

#include <array>
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

namespace penstock::gpu {

class Direct : public Communicator {
 public:
  static Result<std::unique_ptr<Communicator>> open(coll::Communicator& core,
                                                    const std::vector<Area>& areas,
                                                    std::shared_ptr<const Device> device);
  ~Direct() override;
  Result<void> enqueue(const Call& call, cuda::Stream stream) override;
  /// Looks for failures of others too: once a stream has done a call, it tells whether that was
  /// done right.
  std::optional<Error> error() override;
  void abort() override;
  Result<void> drain() override;
  const char* form() const override { return "direct"; }

 private:
  struct Submission {
    std::string name;
    std::shared_ptr<const coll::Prepared> prepared;
    coll::DirectTurn turn;
    std::uint64_t timeout_ns = 0;
  };
  /// Words of this host.
  enum Word : std::size_t { begun, done };

  Direct(coll::Communicator& core, std::shared_ptr<const Device> device)
      : core_(core), device_(std::move(device)) {}
  Result<void> issue(const Call& call, const Submission& submitted, cuda::Stream stream);
  void add(std::vector<cuda::BatchOp>& ops, const coll::DirectOp& op,
           const coll::DirectTurn& turn) const;
  Result<void> flush(Lane lane);

  void run_watchdog();
  Result<void> look();
  Result<void> check_time(const Submission& submitted);
  void let_go(std::unique_lock<std::mutex>& lock);
  void fail_with(const Error& error);

  coll::Communicator& core_;
  std::shared_ptr<const Device> device_;
  std::unique_ptr<Movement> movement_;
  std::unique_ptr<PinnedWords> words_;
  std::unique_ptr<Lanes> lanes_;
  /// What a lane was given and the driver has not got yet.
  std::array<std::vector<cuda::BatchOp>, both_lanes.size()> batch_;

  std::mutex mutex_;  ///< of all below, and of the host's part in the protocol
  std::condition_variable changed_;
  std::deque<Submission> under_way_;
  bool unsettled_ = false;  ///< something was enqueued since the last drain()
  std::optional<Error> error_;
  bool others_know_ = false;  ///< of the error
  bool ends_ = false;
  coll::Missing missing_;
  std::uint64_t looked_at_ = 0;  ///< the call that the times are of
  std::optional<base::AwakeClock> waited_;
  std::uint64_t next_warning_ns_ = 0;
  std::thread watchdog_;
};

}  // namespace penstock::gpu
