// Triggered operations (fi_trigger(3)): a transfer with FI_TRIGGER is held until a counter reaches
// a threshold. The operations of one counter start in the order of their thresholds; those with the
// same threshold start in the order of the calls.
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
  std::uint64_t flags = 0;  ///< flags of the completion if it fails
  void* context = nullptr;
  std::function<ssize_t()> start;  ///< makes the call without FI_TRIGGER; takes the domain's guard
};

/// The triggered operations of one domain. All but `any` and `start_due` are called under the
/// domain's guard.
class Triggers {
 public:
  bool any() const { return held_count_.load(std::memory_order_relaxed) != 0; }
  void hold(TriggeredOp op);
  /// Starts the due operations. The caller must not hold the guard, since starting takes it.
  void start_due(Domain& domain);
  /// Cancels a held operation and reports that. False if none has this context.
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
  bool starting_ = false;  ///< a thread is starting operations; a second would break the order
  std::atomic<std::uint32_t> held_count_{0};
};

/// Holds a transfer whose flags include FI_TRIGGER, or starts it by `call` if it is due.
/// `direction`: FI_SEND, FI_RECV, FI_READ or FI_WRITE. Errors: -FI_EINVAL if the counter is not of
/// this domain, or if the payload would have to be copied now (FI_INJECT). Defined for fi_msg,
/// fi_msg_tagged and fi_msg_rma.
template <class Message>
ssize_t hold_triggered(Ep& ep, const Message& message, std::uint64_t flags, std::uint64_t direction,
                       ssize_t (*call)(fid_ep*, const Message*, std::uint64_t));

}  // namespace penstock::ofi
