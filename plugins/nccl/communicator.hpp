// A communicator of NCCL's interface. It wraps one of penstock/collectives.h.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/fork.hpp"
#include "gpu/device.hpp"
#include "nccl/abi.hpp"
#include "nccl/attached.hpp"
#include "nccl/invitation.hpp"
#include "nccl/meeting.hpp"
#include "nccl/other_library.hpp"
#include "nccl/point_to_point.hpp"
#include "nccl/tasks.hpp"
#include "penstock/gpu.h"

namespace penstock::nccl {

/// An operation made by ncclRedOpCreatePreMulSum().
struct UserOperation {
  bool is_there = false;
  int datatype = 0;
  double factor = 1;
  const void* factor_at = nullptr;
};

}  // namespace penstock::nccl

/// The program's handle holds it, and so do calls and groups: another thread may destroy or abort
/// it meanwhile. Its own tasks do not, because it waits for them.
struct ncclComm : std::enable_shared_from_this<ncclComm> {
  ncclComm();
  ~ncclComm();

  /// Counts this thread as being in a call while it exists. Precedes the look at `aborted`, after
  /// which the call may use `core`, `mail` and `other`.
  class InCall {
   public:
    explicit InCall(ncclComm& comm) : calls_(comm.calls_) { ++calls_; }
    ~InCall() { --calls_; }
    InCall(const InCall&) = delete;
    InCall& operator=(const InCall&) = delete;

   private:
    std::atomic<int>& calls_;
  };

  static constexpr std::uint64_t alive_magic = 0x6d6d6f4350;
  std::atomic<std::uint64_t> magic{alive_magic};
  const penstock::base::Origin origin;  ///< a forked child cannot use it
  int rank = 0, ranks = 1, device = 0;
  std::uint64_t key = 0;  ///< identifies the communicator; the same on all ranks
  std::string name;
  std::shared_ptr<penstock::nccl::Attached> attached;
  std::shared_ptr<const penstock::gpu::Device> gpu;       ///< null: no GPU
  const penstock::nccl::OtherLibrary* library = nullptr;  ///< that carries it; null: Penstock does
  penstock::nccl::OtherComm* other = nullptr;
  penstock_comm_t* core = nullptr;
  std::unique_ptr<penstock::nccl::PointToPoint> mail;
  std::mutex mutex;  ///< guards operations and shrinks
  std::vector<penstock::nccl::UserOperation> operations;
  std::atomic<std::uint64_t> splits{0};  ///< of this one so far
  /// Communicators shrunk from this one so far, by a hash of their ranks: excluded ranks count
  /// none.
  std::map<std::uint64_t, std::uint64_t> shrinks;
  std::atomic<bool> aborted{false};
  std::atomic<bool> closes{false};  ///< no wait for other ranks goes on, in whichever call
  volatile int cancelled = 0;
  bool blocks = true;               ///< calls block; false: they return in_progress
  std::atomic<bool> opened{false};  ///< all fields above are set
  penstock::nccl::Tasks tasks;      ///< calls that do not block

  /// Makes a call. `waits`: the call waits for other ranks even with a GPU. If the communicator
  /// must not block, the call is queued behind earlier ones and begin() returns in_progress;
  /// error() reports the end.
  penstock::nccl::Result begin(std::function<penstock::nccl::Result()> call, bool waits = false);
  /// True if begin() would queue the call.
  bool posts(bool waits) const;

  /// Enqueues a collective call on `stream`; without a GPU, runs it.
  penstock::nccl::Result run(const penstock_call_t& call, penstock::nccl::Stream stream);
  penstock::nccl::Result transfer(const std::vector<penstock::nccl::Transfer>& transfers);
  /// The first error of the calls begun so far; in_progress while a call that does not block is
  /// running or queued.
  penstock::nccl::Result error();
  /// Ends all calls with an error, on the other ranks too.
  void revoke();
  /// Errors: remote_error if a rank that is not `excluded` has died.
  penstock::nccl::Result still_all_there(const std::vector<int>& excluded = {}) const;
  /// Waits until all enqueued calls are complete.
  penstock::nccl::Result finish();
  /// Whether streams of the program may wait for it, as long as it is not aborted.
  bool is_busy() const;
  /// revoke(), then gives its memory and streams back, once no other thread is in a call and the
  /// streams are at rest. Waits for that, and for other aborted communicators; but not for long
  /// while another one is busy, which may be aborted next.
  void abort_and_close();

  /// A handle for the program, valid until let_go().
  penstock::nccl::Comm hand_out();
  /// Returns what the handle held.
  std::shared_ptr<ncclComm> let_go();

 private:
  void abort();
  void close();
  penstock::nccl::Result health();
  penstock::nccl::Result transfer_by_other(const std::vector<penstock::nccl::Transfer>& transfers);

  std::atomic<int> calls_{0};  ///< threads in a call
  bool ends_ = false;          ///< it is being closed
  std::mutex turn_;            ///< held by the thread that begins a collective call
  std::shared_ptr<ncclComm> of_handle_;
};

namespace penstock::nccl {

struct Making {
  std::uint64_t key = 0;  ///< known to all ranks; 0: comes from the invitation
  Invitation invitation;
  int rank = 0, ranks = 1;
  std::string name;
  std::shared_ptr<Attached> attached = nullptr;  ///< null: attach by the invitation
  std::function<Result()> goes_on = nullptr;     ///< polled while waiting; an error ends the wait
  std::shared_ptr<const gpu::Device> gpu = nullptr;  ///< null: the one that is current
};
/// Opens the communicator. Waits for all ranks; an abort by another thread ends the wait.
Result open_comm(ncclComm& comm, const Making& making);
/// Like open_comm(), for a new communicator, stored in `comm`.
Result make_comm(const Making& making, Comm* comm);
using Held = std::shared_ptr<ncclComm>;
/// Holds a program's communicator during a call. Errors: invalid_argument if `comm` is no
/// communicator of this library; invalid_usage in a forked child.
Result hold_handle(const char* call, Comm comm, Held& held);
/// Like hold_handle(), and invalid_argument also while the communicator is still being made.
Result hold(const char* call, Comm comm, Held& held);
/// Drops the windows registered with a communicator, as it ends.
void forget_windows(Comm comm);

}  // namespace penstock::nccl
