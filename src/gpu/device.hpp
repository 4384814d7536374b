// A GPU of this process, through NVIDIA's driver: its context, and the kernels of combine.hpp.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <optional>

#include "base/status.hpp"
#include "gpu/driver.hpp"
#include "schedule/datatype.hpp"

namespace penstock::gpu {

class Device {
 public:
  /// Returns the device of this thread's context; without a context the first GPU. Errors: those of
  /// cuda::driver() and of the driver's calls.
  static Result<std::shared_ptr<const Device>> current();
  /// Returns the device of the stream's context; for a default stream, which every context has,
  /// that of current(). Errors: as above.
  static Result<std::shared_ptr<const Device>> of(cuda::Stream stream);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const cuda::Driver& driver() const { return driver_; }
  /// Whether streams can wait for words and write them.
  bool has_stream_words() const { return stream_words_ != 0; }
  /// Errors: unavailable if they cannot.
  Result<void> need_stream_words() const;
  /// Errors: invalid_argument if the stream belongs to another GPU; a default stream is that of
  /// this thread's context. `call` names the call in them.
  Result<void> need_own(cuda::Stream stream, const char* call) const;
  /// Errors: unavailable if this build has no kernels, or the GPU is too old for them.
  Result<cuda::Function> combine_kernel(coll::Datatype type) const;

  /// The kernels of word_ops.hpp, fused.hpp and flagged.hpp. Errors: unavailable, as above.
  Result<cuda::Function> words_kernel() const;
  Result<cuda::Function> fused_kernel(coll::Datatype type) const;
  Result<cuda::Function> flagged_kernel(coll::Datatype type) const;
  Result<cuda::Function> chunks_kernel() const;
  /// Enqueues a kernel with its one argument. Errors: the driver's; `what` names the kernel in
  /// them.
  Result<void> launch(cuda::Function kernel, unsigned blocks, unsigned threads, void* argument,
                      cuda::Stream stream, const char* what) const;
  /// Allocates zeroed memory of the GPU. Errors: the driver's; `what` names the memory in them.
  Result<cuda::DevicePointer> zeroed_memory(std::size_t bytes, const char* what) const;
  /// Its ordinal in this process.
  int number() const { return number_; }
  /// A number that no other GPU on any host has; not 0.
  std::uint64_t id() const { return id_; }
  /// The NUMA node of the host to which it is attached; nullopt: unknown. Memory that its copy
  /// engines access, and threads that serve it, belong there (base/numa.hpp).
  std::optional<int> numa_node() const { return numa_node_; }

  /// Makes its context this thread's until the end of the scope.
  class Scope {
   public:
    explicit Scope(const Device& device) : driver_(device.driver_) {
      (void)driver_.context_push(device.context_);
    }
    ~Scope() {
      cuda::Context popped = nullptr;
      (void)driver_.context_pop(&popped);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const cuda::Driver& driver_;
  };

 private:
  explicit Device(const cuda::Driver& driver) : driver_(driver) {}
  static Result<std::shared_ptr<const Device>> of_context(const cuda::Driver& driver,
                                                          cuda::Context context);
  Result<void> open(cuda::Context context);
  void load_kernels();
  Result<void> need_kernels(const char* what) const;

  const cuda::Driver& driver_;
  cuda::Device number_ = 0;
  int stream_words_ = 0;
  std::uint64_t id_ = 0;
  std::optional<int> numa_node_;
  cuda::Context context_ = nullptr;
  cuda::Module module_ = nullptr;
  Result<void> kernels_;
  std::array<cuda::Function, coll::datatype_count> combine_{}, fused_{}, flagged_{};
  cuda::Function words_ = nullptr, chunks_ = nullptr;
  mutable std::atomic<std::uint64_t> launches_{0};
  mutable std::atomic<unsigned> max_blocks_{0};
};

/// Lets this thread allocate and register memory while a stream captures a graph, in whichever
/// mode: none of that belongs to the graph.
class BesideCaptures {
 public:
  explicit BesideCaptures(const cuda::Driver& driver) : driver_(driver) {
    (void)driver_.exchange_capture_mode(&mode_);
  }
  ~BesideCaptures() { (void)driver_.exchange_capture_mode(&mode_); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  const cuda::Driver& driver_;
  int mode_ = cuda::capture_relaxed;  ///< the mode to set; afterwards the previous one
};

/// Does the stream capture a graph? Errors: the driver's.
Result<bool> is_capturing(const cuda::Driver& driver, cuda::Stream stream);

/// Orders the operations that `then` is given from now on after those that `first` has been given
/// so far. `event` may be used again at once. `what` names the step in errors.
Result<void> go_after(const cuda::Driver& driver, cuda::Event event, cuda::Stream first,
                      cuda::Stream then, const char* what);

}  // namespace penstock::gpu
