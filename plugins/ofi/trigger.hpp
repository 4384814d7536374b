// Triggered operations (fi_trigger(3)): a transfer with FI_TRIGGER is held until a counter has
// reached a threshold. The operations of one counter start in the order of their thresholds, and at
// the same threshold in the order in which they were queued.
#pragma once

#include <rdma/fi_trigger.h>

#include <atomic>
#include <functional>
#include <list>
#include <memory>

namespace penstock::ofi {

struct Cntr;
struct Domain;
struct Ep;

struct TriggeredOp {
  Ep* ep = nullptr;
  Cntr* cntr = nullptr;
  std::uint64_t threshold = 0;
  std::uint64_t flags = 0;  ///< of the completion, should it fail
  void* context = nullptr;
  std::function<ssize_t()> start;  ///< as the call without FI_TRIGGER; takes the domain's guard
};

/// The triggered operations of one domain. All but `any` and `start_due` are called under the
/// domain's guard.
class Triggers {
 public:
  bool any() const { return held_count_.load(std::memory_order_relaxed) != 0; }
  void hold(TriggeredOp op);
  /// Starts the due operations. The caller does not hold the guard: starting takes it.
  void start_due(Domain& domain);
  /// False: nothing is held under this context. The canceled one is reported.
  bool cancel(Ep& ep, void* context);
  /// Drops the operations of an endpoint that closes.
  void forget(Ep& ep);

 private:
  using Held = std::list<TriggeredOp>;
  static bool is_due(const TriggeredOp& op);
  Held take_first_due();
  void report_failure(const TriggeredOp& op, int error);
  void drop(Held::iterator op);

  Held held_;
  bool starting_ = false;  ///< by some thread: a second one would break the order
  std::atomic<std::uint32_t> held_count_{0};
};

/// Holds a transfer whose flags have FI_TRIGGER, or starts it if it is due, by `call`. `direction`
/// is FI_SEND, FI_RECV, FI_READ or FI_WRITE. -FI_EINVAL: no counter of this domain, or a payload
/// that would have to be copied now (FI_INJECT). Defined for fi_msg, fi_msg_tagged, fi_msg_rma.
template <class Message>
ssize_t hold_triggered(Ep& ep, const Message& message, std::uint64_t flags, std::uint64_t direction,
                       ssize_t (*call)(fid_ep*, const Message*, std::uint64_t));

}  // namespace penstock::ofi
