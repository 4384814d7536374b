// Transfers that share links: each runs at its own max-min fair rate until it is done. A transfer
// gets more only if no transfer with a lower rate would have to give. Source: CCCL, section 4.3
// (requests on a device share its bandwidth evenly); Bertsekas and Gallager, Data Networks, section
// 6.5.2 (progressive filling). Bytes and seconds are real numbers here.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace penstock::model {

inline constexpr double never = std::numeric_limits<double>::infinity();

using Resource = std::uint32_t;
using Flow = std::uint32_t;

/// `share` of each byte of a transfer goes through the resource.
struct Use {
  Resource resource = 0;
  double share = 1;
};

class Fluid {
 public:
  /// Adds a link, a device or a copy engine. `rate`: bytes a second, above 0.
  Resource add_resource(double rate);
  std::size_t resources() const { return rates_.size(); }
  double rate(Resource resource) const { return rates_[resource]; }
  /// Bytes that have passed through it.
  double carried(Resource resource) const { return carried_[resource]; }

  /// Starts a transfer with at least one use and `bytes` above 0. Its number is free again once it
  /// is done.
  Flow start(double bytes, std::vector<Use> uses);
  /// The present rate in bytes a second.
  double rate_of(Flow flow);
  /// Seconds until the next transfer is done; `never` if there is none.
  double until_next();
  /// Advances the time, by no more than until_next(). Returns the transfers that are done, by
  /// number.
  const std::vector<Flow>& advance(double seconds);

 private:
  struct Transfer {
    double left = 0, rate = 0;
    std::vector<Use> uses;
  };
  void share_out();
  void find_used();
  void freeze(Transfer& transfer, double rate);

  std::vector<double> rates_, carried_;
  std::vector<Transfer> transfers_;
  std::vector<Flow> active_, free_, done_, open_;
  bool changed_ = false;
  // Used by share_out(), by resource:
  std::vector<double> left_, load_;
  std::vector<std::uint32_t> open_uses_;
  std::vector<Resource> used_;
};

}  // namespace penstock::model
