#include "transport/credit_reports.hpp"

#include <algorithm>

namespace penstock::transport {

void CreditReports::add(Peer to, std::optional<std::uint32_t> code) {
  const Report report{to, peers_[to].rx->source_generation(), code};
  if (code || std::find(reports_.begin(), reports_.end(), report) == reports_.end())
    reports_.push_back(report);
}

/// A closed endpoint no longer waits, and its channel's memory may have a new owner. The memory is
/// freed under the pool's lock after the endpoint's line says closed, so this takes the lock. If a
/// stopped process holds it, a later call tries again.
void CreditReports::send() {
  if (reports_.empty()) return;
  const auto guard = pool_.lock(briefly_ns);
  // drops pure credits: they are checked again in a second, and the next message returns them
  if (!guard) std::erase_if(reports_, [](const Report& report) { return !report.code; });
  if (!guard) return;
  for (const Report& report : reports_) {
    RxChannel* const channel = peers_[report.peer].rx.get();
    const auto line = table_.read(report.peer);
    if (channel && channel->source_generation() == report.generation && line && line->open() &&
        line->generation == report.generation && channel->current())
      report.code ? channel->send_error(*report.code) : channel->return_credits();
  }
  reports_.clear();
}

}  // namespace penstock::transport
