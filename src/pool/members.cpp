#include "pool/members.hpp"

#include <algorithm>

#include "pool/impl.hpp"

namespace penstock::pool {

bool died(const Pool& pool, std::uint64_t token) {
  const Pool::Impl& impl = Pool::Impl::of(pool);
  if (token == 0 || is_attaching(token) || token == impl.token()) return false;
  const SlotView view = impl.processes.state(static_cast<std::uint32_t>(slot_of(token)));
  return view.whole && view.line.generation == generation_of(token) && view.attached() &&
         !pool.alive(token);
}

std::vector<std::optional<std::uint32_t>> nodes_of(const Pool& pool,
                                                   const std::vector<std::uint64_t>& tokens) {
  constexpr std::uint32_t at_once = 64;
  const ProcessTable& processes = Pool::Impl::of(pool).processes;
  std::vector<std::optional<std::uint32_t>> nodes(tokens.size());
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < tokens.size(); ++i) {
    const bool has_slot = tokens[i] != 0 && !is_attaching(tokens[i]);
    if (has_slot && slot_of(tokens[i]) < processes.slots()) order.push_back(i);
  }
  const auto slot_at = [&](std::size_t place) { return slot_of(tokens[order[place]]); };
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return slot_of(tokens[a]) < slot_of(tokens[b]);
  });
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && slot_at(end) - slot_at(end - 1) <= 1 &&
           slot_at(end) - slot_at(begin) < at_once)
      ++end;
    const auto first = static_cast<std::uint32_t>(slot_at(begin));
    const auto views = processes.states(first, static_cast<std::uint32_t>(slot_at(end - 1)) + 1);
    for (; begin != end; ++begin) {
      const SlotView& view = views[slot_at(begin) - first];
      if (view.whole && view.line.generation == generation_of(tokens[order[begin]]))
        nodes[order[begin]] = view.line.node;
    }
  }
  return nodes;
}

}  // namespace penstock::pool
