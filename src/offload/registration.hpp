// Used by the maker of a communicator: asks the switches of the pool to serve its region, and
// withdraws that before the region's memory is freed.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "offload/directory.hpp"

namespace penstock::offload {

class Registration {
 public:
  /// Asks, and waits until all switches have answered. Returns null, with the reason in `why`, if
  /// one does not serve the region, or there is none. `region` must be described. Errors: no_slots
  /// if this process has already asked for as many regions as it may.
  static Result<std::shared_ptr<Registration>> ask(Serving serving, const Region& region);

  /// Whether all switches have answered that they serve it.
  bool served() const { return served_; }
  /// Why not: "switch 0 (pid ...) has refused it".
  const std::string& why() const { return why_; }
  /// Withdraws the ask, and returns whether nothing more is stored to the region: every switch has
  /// let go, or is dead. Does not wait. Afterwards the word is free.
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
  std::uint32_t word_;   ///< number of the word in this process's asks
  std::uint64_t count_;  ///< count of the ask in that word
  Ask asked_;
  std::uint64_t patience_ns_ = 20'000'000, next_publish_ns_ = 0;  ///< for the withdrawal
  bool served_ = false, withdrawing_ = false, withdrawn_ = false;
  std::string why_;
};

}  // namespace penstock::offload
