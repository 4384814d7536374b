#include "sim/world/trace.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace penstock::sim {

namespace {

std::string nodes_in(std::uint64_t mask) {
  std::string text;
  for (int node = 0; mask != 0; ++node, mask >>= 1) {
    if ((mask & 1) != 0) text += fmt::format("{}{}", text.empty() ? "" : ",", node);
  }
  return text.empty() ? "-" : text;
}

bool is_about_a_line(Event event) {
  return event != Event::store_fence && event != Event::full_fence && event != Event::load_fence;
}

}  // namespace

std::string Trace::text(std::uint64_t most) const {
  const std::uint64_t shown = std::min({most, count_, capacity});
  std::string text =
      "      step  node proc  event           line      word              copies  dirty\n";
  for (std::uint64_t i = count_ - shown; i < count_; ++i) {
    const Entry& e = entries_[i % capacity];
    text +=
        fmt::format("{:>10}  {:>4} {:>4}  {:<14}", e.step, e.node, e.process, event_name(e.event));
    if (is_about_a_line(e.event)) {
      text += fmt::format("  {:<8x}  {:<16x}  {:<6}  {}", e.line, e.word, nodes_in(e.held),
                          nodes_in(e.dirty));
    }
    text += '\n';
  }
  return text;
}

}  // namespace penstock::sim
