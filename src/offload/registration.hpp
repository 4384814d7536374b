// By who makes a communicator: asks the switches of the pool to serve its region, and takes that
// back before the region's memory is freed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "offload/directory.hpp"

namespace penstock::offload {

class Registration {
 public:
  /// Asks, and waits until all switches have answered. Null where one does not serve the region,
  /// or none does; `why` says so. `region` is described already. Errors: no_slots, where this
  /// process has asked for as many as a process may.
  static Result<std::shared_ptr<Registration>> ask(Serving serving, const Region& region);

  /// Whether all switches have said that they serve it.
  bool served() const { return served_; }
  /// Where not: "switch 0 (pid ...) has refused it".
  const std::string& why() const { return why_; }
  /// Takes it back, and looks whether nothing is stored to the region any more: the switches have
  /// let go, or are dead. No wait. Then its word is free.
  bool is_withdrawn();

  Registration(Serving serving, const Region& region, std::uint32_t word, std::uint64_t count)
      : serving_(std::move(serving)), region_(region), word_(word), count_(count) {}
  Registration(const Registration&) = delete;
  Registration& operator=(const Registration&) = delete;
  ~Registration();

 private:
  void publish(const Ask& ask);
  bool all_answered();
  bool may_answer(std::uint32_t number) const;
  Answer answer_of(std::uint32_t number) const;
  bool is_served_by(std::uint32_t number) const;

  Serving serving_;
  Region region_;
  std::uint32_t word_;   ///< of the asks of this process
  std::uint64_t count_;  ///< of the ask that stands there
  Ask asked_;
  std::uint64_t patience_ns_ = 20'000'000, next_publish_ns_ = 0;  ///< of the withdrawal
  bool served_ = false, withdrawing_ = false, withdrawn_ = false;
  std::string why_;
};

}  // namespace penstock::offload
