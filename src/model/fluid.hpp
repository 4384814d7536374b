// Transfers that share links: each goes on at a rate of its own, max-min fair, until it is done. A
// transfer gets more only where no other that gets less would have to give. Source: CCCL, section
// 4.3 (requests on a device share its bandwidth evenly); Bertsekas and Gallager, Data Networks,
// section 6.5.2 (progressive filling). Bytes and seconds are real numbers here.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

namespace penstock::model {

inline constexpr double never = std::numeric_limits<double>::infinity();

using Resource = std::uint32_t;
using Flow = std::uint32_t;

/// Of each byte of a transfer, `share` go through the resource.
struct Use {
  Resource resource = 0;
  double share = 1;
};

class Fluid {
 public:
  /// A link, a device or a copy engine. `rate`: bytes a second, above 0.
  Resource add_resource(double rate);
  std::size_t resources() const { return rates_.size(); }
  double rate(Resource resource) const { return rates_[resource]; }
  /// Bytes that have gone through it.
  double carried(Resource resource) const { return carried_[resource]; }

  /// At least one use, `bytes` above 0. The number is free again when the transfer is done.
  Flow start(double bytes, std::vector<Use> uses);
  /// Bytes a second, now.
  double rate_of(Flow flow);
  /// Seconds until the next one is done; `never` where there is none.
  double until_next();
  /// Time goes on by no more than until_next(). Those that are done, in the order of their numbers.
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
  // Of share_out(), by resource:
  std::vector<double> left_, load_;
  std::vector<std::uint32_t> open_uses_;
  std::vector<Resource> used_;
};

}  // namespace penstock::model
