// PyTorch's process groups over a pool: a back end of c10d. Collectives run in the order of their
// calls, through penstock/collectives.h.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "gpu_work.hpp"
#include "mail.hpp"
#include "rendezvous.hpp"
#include "tensors.hpp"
#include "timeout.hpp"
#include "work.hpp"
#include "worker.hpp"

namespace penstock::torch {

using Tensors = std::vector<at::Tensor>;
using Pending = c10::intrusive_ptr<c10d::Work>;

class Backend : public c10d::Backend {
 public:
  struct Options : c10d::Backend::Options {
    explicit Options(std::chrono::milliseconds wait = kBackendDefaultTimeout)
        : c10d::Backend::Options("penstock", wait) {}
    bool check = false;  ///< compare the calls of all ranks, as PENSTOCK_COLL_CHECK does
  };

  /// `is_first`: this is the default group. Its ranks meet in the constructor, so that errors show
  /// there; if torch has GPUs, only if the program has chosen one. The constructor of any other
  /// group waits for no rank.
  Backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
          c10::intrusive_ptr<Options> options, bool is_first);
  ~Backend() override;

  const std::string getBackendName() const override { return "penstock"; }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return options_; }
  c10::intrusive_ptr<Options> options() const { return options_; }
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(
      const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
      const c10::intrusive_ptr<c10d::Backend::Options>& options) override;
  void setTimeout(std::chrono::milliseconds timeout) override { options_->timeout = timeout; }
  void setSequenceNumberForGroup() override {}
  std::uint64_t getSequenceNumberForGroup() override { return sequence_; }
  c10d::ErrorType getError() override;
  void abort() override;
  /// Seconds that this rank has spent in collectives, including waits for other ranks.
  double communication_seconds() const { return static_cast<double>(spent_ns_.load()) * 1e-9; }
  void shutdown() override;
  /// Call this when the process ends, without Python's lock. Idle groups end in order, as by
  /// shutdown(), and the back end's threads no longer use Python.
  static void leave_all();

  /// Allocates CPU tensors in the pool once the ranks have met, while it has room; collectives need
  /// no copy of them (zero copy). Otherwise allocates ordinary tensors.
  bool supportsTensorAlloc(c10::DeviceIndex) override { return true; }
  at::Tensor allocateTensor(long size, at::TensorOptions options) override;  // NOLINT: PyTorch's

  Pending broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) override;
  Pending allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) override;
  Pending allreduce_coalesced(Tensors& tensors,
                              const c10d::AllreduceCoalescedOptions& opts) override;
  Pending reduce(Tensors& tensors, const c10d::ReduceOptions& opts) override;
  Pending allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                    const c10d::AllgatherOptions& opts) override;
  Pending _allgather_base(at::Tensor& output, at::Tensor& input,
                          const c10d::AllgatherOptions& opts) override;
  Pending allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& opts) override;
  Pending allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& opts) override;
  Pending gather(std::vector<Tensors>& outputs, Tensors& inputs,
                 const c10d::GatherOptions& opts) override;
  Pending scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                  const c10d::ScatterOptions& opts) override;
  Pending reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& opts) override;
  Pending _reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                               const c10d::ReduceScatterOptions& opts) override;
  Pending reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& opts) override;
  Pending alltoall_base(at::Tensor& output, at::Tensor& input,
                        std::vector<std::int64_t>& output_sizes,
                        std::vector<std::int64_t>& input_sizes,
                        const c10d::AllToAllOptions& opts) override;
  Pending alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) override;
  Pending barrier(const c10d::BarrierOptions& opts) override;
  Pending send(Tensors& tensors, int to, int tag) override;
  Pending recv(Tensors& tensors, int from, int tag) override;
  Pending recvAnysource(Tensors& tensors, int tag) override;

 private:
  /// One collective of a call, with the memory that it needs.
  struct Part {
    penstock_collective_t collective = PENSTOCK_BARRIER;
    int root = 0;
    Blocks input, output;
    ReductionOf reduction;
    bool in_place = false;
    bool max_is_known = false;
    std::uint64_t max_bytes = 0;
  };
  struct How {
    c10d::OpType type;
    const char* name;
    std::chrono::milliseconds timeout;
    bool async = true;
  };
  std::chrono::milliseconds limit() const { return limit_of(options_->timeout); }
  std::chrono::milliseconds limit_of_call(const How& how) const {
    return how.timeout == c10d::kUnsetTimeout ? limit() : limit_of(how.timeout);
  }
  Pending start(const How& how, std::vector<Part> parts, Tensors results);
  /// Like start(), for CUDA tensors: enqueues the call on a stream.
  Pending start_on_gpu(const How& how, const std::vector<Part>& parts, Tensors results,
                       c10::Device device);
  void enqueue_parts(const How& how, const std::string& name, const std::vector<Part>& parts,
                     const c10::Stream& stream);
  std::exception_ptr failure();
  static penstock_call_t call_of(const std::string& name, const Part& part,
                                 std::chrono::milliseconds timeout);
  static Tensors shown_of(const std::vector<Part>& parts, const Tensors& results);
  c10::intrusive_ptr<Work> make_work(const How& how, const std::vector<Part>& parts,
                                     std::uint64_t sequence, Tensors results) const;
  std::exception_ptr run(const How& how, std::uint64_t sequence, const std::vector<Part>& parts);
  void run_part(const std::string& name, const Part& part, std::chrono::milliseconds timeout);
  void connect();
  void open();
  std::shared_ptr<Attached> attached();
  Patience patience(penstock_pool_t* pool) const { return {limit(), cancelled_, pool}; }
  void check_process();
  void cancel(const char* why);
  void abort_calls(const char* why);
  void stop(const char* why);
  void close(bool awaits_rank_0);
  bool is_idle();
  std::shared_ptr<Mail> mail();
  bool drain();
  Pending post(bool is_send, Tensors& tensors, int peer, int tag);
  void fail(const std::exception_ptr& error);

  Part gathering(Blocks outputs, const at::Tensor& input) const;
  Part scattering_sum(const at::Tensor& output, Blocks inputs, const c10d::ReduceOp& op) const;
  Part reduction_in_place(const at::Tensor& tensor, const c10d::ReduceOp& op) const;

  c10::intrusive_ptr<Options> options_;
  const Meeting meeting_;
  const bool is_first_;  ///< the default group, which ends with the job
  const std::uint64_t forks_;
  std::shared_ptr<Attached> attached_;
  std::atomic<penstock_comm_t*> comm_{nullptr};
  /// Held by a call of comm_ that another thread's close may meet, and by that while it takes comm_
  /// away.
  std::mutex comm_mutex_;
  volatile int cancelled_ = 0;
  std::atomic<std::uint64_t> sequence_{0};
  std::atomic<std::int64_t> spent_ns_{0};
  std::mutex mutex_;          ///< guards error_ and attached_
  std::exception_ptr error_;  ///< of the group; every later call fails with it
  int splits_ = 0;
  std::unique_ptr<Worker> worker_;
  GpuStream gpu_stream_;
  std::mutex mail_mutex_;
  std::shared_ptr<Mail> mail_;
};

}  // namespace penstock::torch
