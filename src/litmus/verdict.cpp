#include "litmus/verdict.hpp"

#include "base/format.hpp"

namespace penstock::litmus {

const char* trial_name(Trial trial) {
  switch (trial) {
    case Trial::plain:
      return "plain stores, plain loads";
    case Trial::written_back:
      return "write-back, plain loads";
    case Trial::dropped:
      return "plain stores, invalidated before loads";
    case Trial::both:
      return "write-back, invalidated before loads";
    case Trial::published:
      return "published, observed";
    case Trial::words:
      return "words of one line by both at once";
    case Trial::stream:
      return "lines published while they are observed";
    case Trial::bulk:
      return "payload published before a flag";
    case Trial::tagged:
      return "tagged lines, looked for all the time";
    case Trial::intra_node:
      return "payload before a flag, plain loads";
    case Trial::announced:
      return "both announce themselves, then look";
  }
  return "?";
}

Counts Report::sum(Trial trial) const {
  Counts sum;
  for (const auto& side : counts) {
    const Counts& found = side[static_cast<std::uint32_t>(trial)];
    sum.right += found.right;
    sum.stale += found.stale;
    sum.torn += found.torn;
    sum.wrong += found.wrong;
  }
  return sum;
}

bool Report::all_right(Trial trial) const {
  const auto index = static_cast<std::uint32_t>(trial);
  return counts[0][index].all_right() && counts[1][index].all_right();
}

Verdict judge(const Report& report) {
  Verdict verdict;
  verdict.intra_node_holds = report.all_right(Trial::intra_node);
  for (const Trial trial :
       {Trial::both, Trial::published, Trial::bulk, Trial::tagged, Trial::announced}) {
    if (report.all_right(trial)) continue;
    const Counts found = report.sum(trial);
    verdict.why = fmt::format("\"{}\" failed in {} of {} rounds", trial_name(trial),
                              found.looks() - found.right, found.looks());
    return verdict;
  }
  if (const Counts found = report.sum(Trial::stream); found.wrong > 0) {
    verdict.why = fmt::format("in {} of {} looks the last word of a line came before the others",
                              found.wrong, found.looks());
    return verdict;
  }
  verdict.needs_write_back = !report.all_right(Trial::dropped);
  verdict.needs_invalidate = !report.all_right(Trial::written_back);
  if (report.all_right(Trial::plain)) {
    verdict.kind = Kind::coherent;
  } else {
    verdict.kind = report.all_right(Trial::words) ? Kind::software : Kind::no_partial_stores;
  }
  return verdict;
}

}  // namespace penstock::litmus
