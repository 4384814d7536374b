// Sends and receives of a process group, by penstock/messages.h. A thread makes them go on while
// there are any; ranks find each other by the store, at a pair's first message.
#pragma once

#include <penstock/messages.h>

#include <chrono>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "rendezvous.hpp"
#include "work.hpp"

namespace penstock::torch {

class Mail {
 public:
  /// `tokens`: by rank, the attachment of its process, as far as it is known; else 0.
  Mail(c10::intrusive_ptr<c10d::Store> store, std::shared_ptr<Attached> attached, int rank,
       const std::string& group, std::vector<std::uint64_t> tokens);
  ~Mail();
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  static constexpr int anybody = -1;
  struct Message {
    bool is_send = true;
    int peer = anybody;
    std::uint64_t tag = 0;
    at::Tensor tensor;
    c10::intrusive_ptr<Work> work;
    std::chrono::milliseconds timeout{0};
  };
  void post(Message message);
  /// All that is not done ends with this error, and so does what is posted later.
  void stop(const std::exception_ptr& error);

 private:
  struct Entry {
    Message message;
    at::Tensor dense;
    penstock_request_t* request = nullptr;
    std::chrono::steady_clock::time_point until;
  };
  void run();
  bool look();
  void begin(Entry& entry);
  bool meet(int peer);
  std::exception_ptr outcome_of(Entry& entry, bool* done) const;
  std::exception_ptr late(const Entry& entry) const;
  /// Null: the peer lives, or nothing is known of it yet.
  std::exception_ptr dead(const Entry& entry);
  std::string key(int rank) const { return "penstock/address/" + std::to_string(rank); }

  c10::intrusive_ptr<c10d::Store> store_;
  std::shared_ptr<Attached> attached_;
  int rank_;
  std::string group_;
  penstock_messenger_t* messenger_ = nullptr;
  std::vector<std::uint64_t> tokens_;
  std::vector<bool> known_;  ///< by rank: its address
  std::chrono::steady_clock::time_point next_check_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Entry> entries_;
  std::exception_ptr error_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace penstock::torch
