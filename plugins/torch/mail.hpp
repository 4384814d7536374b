// Sends and receives of a process group, by penstock/messages.h. A thread makes them go on while
// there are any. The two ranks of a message find each other by the store, and need no other rank.
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
  /// Returns at once. `attach`: called in the thread; it may wait. `group`: its name in messages.
  /// `tokens`: by rank, the attachment of its process, as far as it is known; else 0. The thread
  /// holds it too, until end().
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
  /// All that is not done ends with this error, and so does what is posted later.
  void stop(const std::exception_ptr& error);
  /// Waits until all has ended but receives for which no message has come. False: not within
  /// `limit`. It does not wait in the thread, whose callback has to return first.
  bool drain(std::chrono::milliseconds limit);
  /// stop(), and waits until the thread has ended; in the thread it does not.
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
  // In the thread, without the lock:
  void run();
  void open();
  bool take();
  bool look();
  bool has_to_end() const;
  bool advance(Entry& entry, std::exception_ptr& error);
  void begin(Entry& entry);
  bool meet(int peer);
  std::optional<Place> place_of(int rank) const;
  std::exception_ptr outcome_of(Entry& entry, bool* done) const;
  std::exception_ptr late(const Entry& entry) const;
  std::exception_ptr dead(const Entry& entry);
  bool is_gone(int rank, std::string* who);
  static void report(std::vector<Ended> ended);

  const Meeting meeting_;
  const std::function<std::shared_ptr<Attached>()> attach_;
  const std::string group_;
  // Of the thread:
  std::shared_ptr<Attached> attached_;
  penstock_messenger_t* messenger_ = nullptr;
  std::vector<std::uint64_t> tokens_;
  std::vector<bool> known_;  ///< by rank: its address
  std::vector<bool> held_;   ///< by rank, during a look: an earlier send waits for its address
  std::vector<std::chrono::steady_clock::time_point> next_lookup_;  ///< by rank, of its address
  std::chrono::steady_clock::time_point next_check_;
  std::list<Entry> entries_;

  std::atomic<std::size_t> under_way_{0};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Entry> posted_;
  std::exception_ptr error_;
  bool drains_ = false;  ///< somebody waits in drain() ...
  bool rests_ = false;   ///< ... and may go on
  std::thread thread_;
};

}  // namespace penstock::torch
