#include "trigger.hpp"

#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <algorithm>
#include <vector>

#include "ep.hpp"
#include "lib.hpp"

namespace penstock::ofi {

namespace {

/// A copy of a call's message structure, since the caller's may be gone when the transfer starts.
template <class Message>
struct Kept {
  explicit Kept(const Message& given)
      : message(given), iov(given.msg_iov, given.msg_iov + given.iov_count) {
    message.msg_iov = iov.data();
    message.desc = nullptr;  // this provider needs no descriptors
  }
  Message message;
  std::vector<iovec> iov;
};

template <>
struct Kept<fi_msg_rma> {
  explicit Kept(const fi_msg_rma& given)
      : message(given),
        iov(given.msg_iov, given.msg_iov + given.iov_count),
        remote(given.rma_iov, given.rma_iov + given.rma_iov_count) {
    message.msg_iov = iov.data();
    message.rma_iov = remote.data();
    message.desc = nullptr;
  }
  fi_msg_rma message;
  std::vector<iovec> iov;
  std::vector<fi_rma_iov> remote;
};

/// FI_MSG, FI_TAGGED or FI_RMA, by the kind of the call.
std::uint64_t interface_of(const fi_msg*) {
  return FI_MSG;
}
std::uint64_t interface_of(const fi_msg_tagged*) {
  return FI_TAGGED;
}
std::uint64_t interface_of(const fi_msg_rma*) {
  return FI_RMA;
}

Cntr* counter_of(const Ep& ep, const void* context) {
  const auto* triggered = static_cast<const fi_triggered_context*>(context);
  if (triggered == nullptr || triggered->event_type != FI_TRIGGER_THRESHOLD) return nullptr;
  fid_cntr* counter = triggered->trigger.threshold.cntr;
  if (counter == nullptr || counter->fid.fclass != FI_CLASS_CNTR) return nullptr;
  auto* cntr = static_cast<Cntr*>(counter);
  return cntr->domain == ep.domain ? cntr : nullptr;
}

}  // namespace

void Triggers::hold(TriggeredOp op) {
  const auto behind = std::find_if(held_.begin(), held_.end(), [&](const TriggeredOp& held) {
    return held.threshold > op.threshold;
  });
  op.cntr->users.fetch_add(1);
  held_.insert(behind, std::move(op));
  held_count_.fetch_add(1);
}

void Triggers::drop(Held::iterator op) {
  op->cntr->users.fetch_sub(1);
  held_.erase(op);
  held_count_.fetch_sub(1);
}

bool Triggers::is_due(const TriggeredOp& op) {
  return op.cntr->value.load(std::memory_order_relaxed) >= op.threshold;
}

/// Takes at most one due operation; it still counts as held.
Triggers::Held Triggers::take_first_due() {
  Held one;
  const auto due = std::find_if(held_.begin(), held_.end(), is_due);
  if (due != held_.end()) one.splice(one.begin(), held_, due);
  return one;
}

void Triggers::report_failure(const TriggeredOp& op, int error) {
  const bool receive = (op.flags & FI_RECV) != 0;
  CompletionError failure;
  failure.what.context = op.context;
  failure.what.flags = op.flags;
  failure.error = error;
  if (Cntr* counts = receive ? op.ep->counters.rx : op.ep->counters.tx) counts->count_error();
  if (Cq* cq = receive ? op.ep->rx_cq : op.ep->tx_cq) cq->push_error(failure);
}

void Triggers::start_due(Domain& domain) {
  Held one;
  {
    const Guard guard(domain);
    if (starting_) return;
    one = take_first_due();
    starting_ = !one.empty();
  }
  while (!one.empty()) {
    const ssize_t started = one.front().start();
    const Guard guard(domain);
    held_.splice(held_.begin(), one);  // back before all others of its counter
    if (started != -FI_EAGAIN) {
      if (started < 0) report_failure(held_.front(), static_cast<int>(-started));
      drop(held_.begin());
      one = take_first_due();
    }
    starting_ = !one.empty();
  }
}

bool Triggers::cancel(Ep& ep, void* context) {
  const auto found = std::find_if(held_.begin(), held_.end(), [&](const TriggeredOp& op) {
    return op.ep == &ep && op.context == context;
  });
  if (found == held_.end()) return false;
  report_failure(*found, FI_ECANCELED);
  drop(found);
  return true;
}

void Triggers::forget(Ep& ep) {
  for (auto op = held_.begin(); op != held_.end();) {
    const auto next = std::next(op);
    if (op->ep == &ep) drop(op);
    op = next;
  }
}

template <class Message>
ssize_t hold_triggered(Ep& ep, const Message& message, std::uint64_t flags, std::uint64_t direction,
                       ssize_t (*call)(fid_ep*, const Message*, std::uint64_t)) {
  if ((ep.caps & FI_TRIGGER) == 0 || (flags & FI_INJECT) != 0) return -FI_EINVAL;
  Cntr* const cntr = counter_of(ep, message.context);
  if (cntr == nullptr) return -FI_EINVAL;
  const int held = guarded([&]() -> int {
    auto kept = std::make_shared<Kept<Message>>(message);
    TriggeredOp op;
    op.ep = &ep;
    op.cntr = cntr;
    op.threshold =
        static_cast<const fi_triggered_context*>(message.context)->trigger.threshold.threshold;
    op.flags = interface_of(&message) | direction;
    op.context = message.context;
    const std::uint64_t rest = flags & ~static_cast<std::uint64_t>(FI_TRIGGER);
    op.start = [&ep, kept, rest, call] { return call(&ep, &kept->message, rest); };
    const Guard guard(*ep.domain);
    ep.domain->triggers.hold(std::move(op));
    return 0;
  });
  if (held == 0) start_triggered(*ep.domain);
  return held;
}

template ssize_t hold_triggered(Ep&, const fi_msg&, std::uint64_t, std::uint64_t,
                                ssize_t (*)(fid_ep*, const fi_msg*, std::uint64_t));
template ssize_t hold_triggered(Ep&, const fi_msg_tagged&, std::uint64_t, std::uint64_t,
                                ssize_t (*)(fid_ep*, const fi_msg_tagged*, std::uint64_t));
template ssize_t hold_triggered(Ep&, const fi_msg_rma&, std::uint64_t, std::uint64_t,
                                ssize_t (*)(fid_ep*, const fi_msg_rma*, std::uint64_t));

}  // namespace penstock::ofi
