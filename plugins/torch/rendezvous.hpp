// How the ranks of a process group meet: through PyTorch's store they agree on a pool, and exchange
// the data that a communicator needs.
#pragma once

#include <penstock/collectives.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tensor_memory.hpp"

namespace penstock::torch {

/// Throws penstock_last_error() as an exception of PyTorch.
[[noreturn]] void throw_last_error(penstock_status_t status);

/// Limits of a wait for other ranks: a timeout, and a flag that another thread sets to cancel.
struct Patience {
  std::chrono::milliseconds timeout;
  const volatile int& cancelled;
  penstock_pool_t* pool = nullptr;  ///< used to find ranks that have died
};

/// A group's exchange of keys through its store. A store may outlive the group, and the next group
/// of that name may use it again. So each rank counts its meetings, and its keys contain the count.
/// If a rank missed a meeting that another rank gave up, it counts that one too. Thread-safe.
class Meeting {
 public:
  /// Joins the next meeting. `token`: this rank's process in the pool; 0 if it is not attached.
  Meeting(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::uint64_t token);

  int rank() const { return rank_; }
  int size() const { return size_; }
  void publish(const std::string& topic, const std::string& text) const;
  /// Returns the text that `rank` has published; empty: none yet.
  std::string published(const std::string& topic, int rank) const;
  /// Waits until `rank` has published `topic`. `group`: its name in messages.
  std::string await(const std::string& topic, int rank, const std::string& group,
                    const Patience& patience) const;
  /// Collects `mine` from all ranks, in rank order. All must have the same length.
  std::string from_all(const std::string& topic, const std::string& mine, const std::string& group,
                       const Patience& patience) const;
  /// The process of `rank` in the pool; 0 if it was not attached when it came.
  std::uint64_t token(int rank) const;
  /// If a process of the group serves the store and only groups hold it, the store ends with them.
  /// Waits until then, or for `longest`, so that no later group of this process finds it.
  void await_end_of_store(std::chrono::milliseconds longest) const;
  /// Reports to all ranks that wait for this one, now or later, why it cannot join.
  void give_up(const std::string& why) const;

 private:
  std::string key(const std::string& topic, int rank) const;
  void forget(std::int64_t coming) const;
  template <class Ask>
  auto asked(const Ask& ask) const;
  bool has(const std::string& key) const;
  std::int64_t comings(int rank) const;
  bool is_over() const;
  std::string names_of(const std::function<bool(int rank)>& missing) const;
  std::string who_is_late(const std::string& topic, int awaited, const std::string& group) const;
  void check_alive(int rank, const std::string& group, penstock_pool_t* pool) const;

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_, size_;
  std::int64_t coming_ = 0;
};

/// This process's attachment, shared by all of its groups.
class Attached {
 public:
  /// For rank 0: attaches to the pool that PENSTOCK_POOL names, to that of earlier groups or, on
  /// one host, to a temporary one that it creates. Publishes the pool to the other ranks. Waits for
  /// none.
  static std::shared_ptr<Attached> invite(const Meeting& meeting);
  /// For the other ranks: attaches to the pool that rank 0 has named.
  static std::shared_ptr<Attached> accept(const Meeting& meeting, const std::string& group,
                                          const Patience& patience);
  /// The attachment of the existing groups; null: none has met.
  static std::shared_ptr<Attached> there();
  /// Call this when the process ends. Removes a temporary pool that was made here, even if others
  /// are attached.
  static void leave();
  ~Attached();
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

  penstock_pool_t* pool() const { return pool_; }
  TensorMemory& tensors() const { return *tensors_; }
  const std::string& spec() const { return spec_; }
  std::uint64_t token() const { return token_; }
  /// False in a forked child of the process that attached.
  bool is_here() const;

 private:
  Attached(penstock_pool_t* pool, std::string spec);
  static std::shared_ptr<Attached> attach(const Meeting& meeting, const std::string& spec,
                                          const std::string& job, bool is_made_here);

  penstock_pool_t* pool_;
  std::string spec_;
  std::uint64_t token_ = 0;
  int process_;
  std::unique_ptr<TensorMemory> tensors_;
  void remove();
  int remove_by_ = 0;  ///< the process that made the temporary pool; 0: none to remove
};

}  // namespace penstock::torch
