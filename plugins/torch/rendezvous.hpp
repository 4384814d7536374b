// How the ranks of a process group meet: by PyTorch's store they agree on a pool, and exchange what
// a communicator needs.
#pragma once

#include <penstock/collectives.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tensor_memory.hpp"

namespace penstock::torch {

/// What penstock_last_error() says, as an exception of PyTorch.
[[noreturn]] void throw_last_error(penstock_status_t status);

/// How a rank waits for others: until a deadline, or until another thread cancels.
struct Patience {
  std::chrono::milliseconds timeout;
  const volatile int& cancelled;
  penstock_pool_t* pool = nullptr;  ///< shows which ranks have died
};

/// Ranks of one group write and read keys of their store here. A store may outlive the group, and
/// the next group of its name may use it again. So each rank counts how often it has come, and the
/// count is a part of its keys. A rank that has missed a meeting which another one gave up counts
/// it too. Any thread may call this.
class Meeting {
 public:
  /// This rank comes. `token`: its process in the pool, if it is attached; else 0.
  Meeting(c10::intrusive_ptr<c10d::Store> store, int rank, int size, std::uint64_t token);

  int rank() const { return rank_; }
  int size() const { return size_; }
  void tell(const std::string& topic, const std::string& text) const;
  /// Empty: `rank` has not told it yet.
  std::string told(const std::string& topic, int rank) const;
  /// Waits until `rank` tells it. `group`: its name in messages.
  std::string await(const std::string& topic, int rank, const std::string& group,
                    const Patience& patience) const;
  /// `mine` of all ranks, in rank order, each as long.
  std::string from_all(const std::string& topic, const std::string& mine, const std::string& group,
                       const Patience& patience) const;
  /// The process of `rank` in the pool, if it was attached when it came; else 0.
  std::uint64_t token(int rank) const;
  /// If a process of the group serves the store and only groups hold it, the store ends with them.
  /// Waits until it has ended, so that no later group of this process finds it.
  void await_end_of_store(std::chrono::milliseconds longest) const;
  /// Those who wait for this rank, now or later, get an error that says why.
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
  /// For rank 0: the pool that PENSTOCK_POOL names, or that of earlier groups, or, on one host, a
  /// temporary one that is made here. Tells the other ranks, and waits for none.
  static std::shared_ptr<Attached> invite(const Meeting& meeting);
  /// For the other ranks: the pool that rank 0 has named.
  static std::shared_ptr<Attached> accept(const Meeting& meeting, const std::string& group,
                                          const Patience& patience);
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
  int remove_by_ = 0;  ///< it is temporary and was made by this process; 0: not so
};

}  // namespace penstock::torch
