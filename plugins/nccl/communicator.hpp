// A communicator of NCCL's interface, over one of penstock/collectives.h.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

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

/// An operation of ncclRedOpCreatePreMulSum().
struct UserOperation {
  bool is_there = false;
  int datatype = 0;
  double factor = 1;
  const void* factor_at = nullptr;
};

}  // namespace penstock::nccl

struct ncclComm {
  ~ncclComm();

  /// A thread is in a call.
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
  std::uint64_t magic = alive_magic;
  int rank = 0, ranks = 1, device = 0;
  std::uint64_t key = 0;  ///< of the communicator, the same on all ranks
  std::string name;
  std::shared_ptr<penstock::nccl::Attached> attached;
  std::shared_ptr<const penstock::gpu::Device> gpu;       ///< null: there is none
  const penstock::nccl::OtherLibrary* library = nullptr;  ///< that carries it; null: ours
  penstock::nccl::OtherComm* other = nullptr;
  penstock_comm_t* core = nullptr;
  std::unique_ptr<penstock::nccl::PointToPoint> mail;
  std::mutex mutex;  ///< of operations
  std::vector<penstock::nccl::UserOperation> operations;
  std::atomic<std::uint64_t> children{0};  ///< splits so far
  std::atomic<bool> aborted{false};
  volatile int cancelled = 0;
  bool blocks = true;               ///< its calls block; else they return in_progress
  std::atomic<bool> opened{false};  ///< all above is there
  penstock::nccl::Tasks tasks;      ///< of calls that do not block

  /// Makes a call. `waits`: it waits for other ranks even with a GPU. If the communicator must not
  /// block, the call comes after the earlier ones; then this returns in_progress, and error() tells
  /// when it has ended.
  penstock::nccl::Result begin(std::function<penstock::nccl::Result()> call, bool waits = false);
  /// True if begin() would not make the call at once.
  bool posts(bool waits) const;

  /// Enqueues, or without a GPU runs, a collective call.
  penstock::nccl::Result run(const penstock_call_t& call, penstock::nccl::Stream stream);
  penstock::nccl::Result transfer(const std::vector<penstock::nccl::Transfer>& transfers);
  /// The state of the calls that were begun; in_progress while one that does not block is under
  /// way.
  penstock::nccl::Result error();
  void abort();
  /// Errors: it was aborted; a rank that is not `excluded` has died.
  penstock::nccl::Result still_all_there(const std::vector<int>& excluded = {}) const;
  /// Waits until all that was enqueued is done.
  penstock::nccl::Result finish();
  /// After abort(): until no other thread is in a call.
  void await_calls() const;

 private:
  penstock::nccl::Result health();
  penstock::nccl::Result transfer_by_other(const std::vector<penstock::nccl::Transfer>& transfers);

  std::atomic<int> calls_{0};  ///< threads in a call
  std::mutex turn_;            ///< of the thread that begins a collective call
};

namespace penstock::nccl {

struct Making {
  std::uint64_t key = 0;  ///< that all ranks know; 0: to be found by the invitation
  Invitation invitation;
  int rank = 0, ranks = 1;
  std::string name;
  std::shared_ptr<Attached> attached = nullptr;  ///< null: to be found
  std::function<Result()> goes_on = nullptr;     ///< an error: it need not wait any more
};
/// Waits for all ranks. An abort() of the communicator ends that.
Result open_comm(ncclComm& comm, const Making& making);
/// The same with a new communicator.
Result make_comm(const Making& making, Comm* comm);
/// Errors: invalid_argument, no communicator of ours.
Result check_handle(const char* call, Comm comm);
/// The same, and invalid_argument also while the communicator is still being made.
Result check_comm(const char* call, Comm comm);
/// What is registered with a communicator that ends.
void forget_windows(Comm comm);

}  // namespace penstock::nccl
