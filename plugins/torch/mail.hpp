// Sends and receives of a process group, through penstock/messages.h. A thread progresses them
// while there are any. The two ranks of a message find each other through the store, and need no
// other rank.
#pragma once

#include <penstock/messages.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rendezvous.hpp"
#include "work.hpp"

namespace penstock::torch {

class Mail {
 public:
  /// Starts the thread, and returns at once. `attach`: called in the thread; may wait. `group`: its
  /// name in messages. `tokens`: by rank, the attachment of its process; 0 if unknown. The thread
  /// shares ownership until end().
  static std::shared_ptr<Mail> start(Meeting meeting,
                                     std::function<std::shared_ptr<Attached>()> attach,
                                     const std::string& group, std::vector<std::uint64_t> tokens);
  Mail(const Mail&) = delete;
  Mail& operator=(const Mail&) = delete;

  static constexpr int anybody = -1;
  struct Message {
    bool is_send = true;
    int peer = anybody;
    std::uint64_t tag = 0;
    at::Tensor tensor;
    std::shared_ptr<Outcome> outcome;
    std::chrono::milliseconds timeout{0};
  };
  void post(Message message);
  /// Ends all messages in progress, and all that are posted later, with this error.
  void stop(const std::exception_ptr& error);
  /// Waits until all messages have ended, except receives without a message. False: not within
  /// `limit` (milliseconds). Returns at once in the mail thread, whose callback must return first.
  bool drain(std::chrono::milliseconds limit);
  /// Calls stop(), and waits until the thread has ended, except in that thread itself.
  void end();
  bool is_idle() const { return under_way_ == 0; }

 private:
  struct Entry {
    Message message;
    at::Tensor dense;
    penstock_request_t* request = nullptr;
    std::chrono::steady_clock::time_point begun;
  };
  /// A rank's entry in the store.
  struct Place {
    penstock_address_t address;
    std::uint64_t token;
  };
  struct Ended {
    Entry entry;
    std::exception_ptr error;
  };
  Mail(Meeting meeting, std::function<std::shared_ptr<Attached>()> attach, const std::string& group,
       std::vector<std::uint64_t> tokens);
  // Run in the thread, without the lock:
  void run();
  void open();
  bool take();
  bool look();
  bool has_to_end() const;
  bool advance(Entry& entry, std::exception_ptr& error);
  void begin(Entry& entry);
  void meet(int peer);
  void expect(int rank);
  std::optional<Place> place_of(int rank) const;
  std::exception_ptr outcome_of(Entry& entry, bool* done) const;
  std::exception_ptr late(const Entry& entry) const;
  static void report(std::vector<Ended> ended);

  const Meeting meeting_;
  const std::function<std::shared_ptr<Attached>()> attach_;
  const std::string group_;
  // Used only by the thread:
  std::shared_ptr<Attached> attached_;
  penstock_messenger_t* messenger_ = nullptr;
  std::vector<std::uint64_t> tokens_;
  std::vector<bool> known_;  ///< by rank: its address is known
  std::vector<std::chrono::steady_clock::time_point> next_lookup_;  ///< by rank: when to look again
  std::chrono::steady_clock::time_point next_check_;
  std::list<Entry> entries_;

  std::atomic<std::size_t> under_way_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Entry> posted_;
  std::exception_ptr error_;
  bool drains_ = false;  ///< a thread waits in drain() ...
  bool rests_ = false;   ///< ... and may continue
  std::thread thread_;
};

}  // namespace penstock::torch
