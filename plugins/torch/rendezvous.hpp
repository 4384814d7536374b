// How the ranks of a process group meet: by PyTorch's store they agree on a pool, and exchange what
// a communicator needs.
#pragma once

#include <penstock/collectives.h>

#include <chrono>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tensor_memory.hpp"

namespace penstock::torch {

/// What penstock_last_error() says, as an exception of PyTorch.
[[noreturn]] void throw_last_error(penstock_status_t status);

/// Ranks of one group write and read keys of their store here. Waits end at a deadline, and when
/// another thread cancels.
class Meeting {
 public:
  Meeting(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::string group,
          std::chrono::milliseconds timeout, const volatile int& cancelled)
      : store_(std::move(store)),
        rank_(rank),
        size_(size),
        group_(std::move(group)),
        timeout_(timeout),
        cancelled_(cancelled) {}

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& group() const { return group_; }
  /// What rank 0 says; the other ranks' `mine` does not count.
  std::string from_first(const std::string& topic, const std::string& mine);
  /// `mine` of all ranks, in rank order, each as long.
  std::string from_all(const std::string& topic, const std::string& mine);
  /// All have met: what was said here is taken back, since a store may outlive the group, and the
  /// next one of its name would take it for its own.
  void done();
  /// Those who wait for this rank, now or later, get an error that says why.
  void give_up(const std::string& why);

 private:
  std::string key(const std::string& topic, int rank) const;
  std::string await(const std::string& topic, int rank);

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, size_;
  std::string group_;
  std::chrono::milliseconds timeout_;
  const volatile int& cancelled_;
};

/// This process's attachment, shared by all of its groups.
class Attached {
 public:
  /// The pool that PENSTOCK_POOL names, or, on one host, a temporary one that rank 0 makes.
  static std::shared_ptr<Attached> meet(Meeting& meeting);
  /// That of the groups that there are; null: none has met.
  static std::shared_ptr<Attached> there();
  /// The process ends: a temporary pool that was made here is removed, whoever is attached.
  static void leave();
  ~Attached();
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

  penstock_pool_t* pool() const { return pool_; }
  TensorMemory& tensors() const { return *tensors_; }
  const std::string& spec() const { return spec_; }

 private:
  Attached(penstock_pool_t* pool, std::string spec)
      : pool_(pool), spec_(std::move(spec)), tensors_(std::make_unique<TensorMemory>(pool)) {}

  penstock_pool_t* pool_;
  std::string spec_;
  std::unique_ptr<TensorMemory> tensors_;
  void remove();
  int remove_by_ = 0;  ///< it is temporary and was made by this process; 0: not so
};

}  // namespace penstock::torch
