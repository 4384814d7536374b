#include "bench/tuning_choice.hpp"

#include <algorithm>
#include <cmath>

namespace penstock::bench {

namespace {

constexpr double worth = 0.95;

/// The least median among plans that also beat the built-in plan in their best rounds: a median
/// alone may only show that another process took the CPU.
std::size_t best_of(const MeasuredCase& measured) {
  const std::size_t built_in = measured.what.by_default;
  std::size_t best = built_in;
  for (std::size_t i = 0; i < measured.ns.size(); ++i) {
    const bool is_better = measured.ns[i] < measured.ns[built_in] * worth &&
                           measured.least_ns[i] < measured.least_ns[built_in] * worth;
    if (is_better && measured.ns[i] < measured.ns[best]) best = i;
  }
  return best;
}

/// Half-way between two measured sizes, on a logarithmic scale.
std::uint64_t between(std::uint64_t low, std::uint64_t high) {
  return static_cast<std::uint64_t>(
      std::sqrt(static_cast<double>(low) * static_cast<double>(high)));
}

TuningChoice choice_of(const MeasuredCase& measured, const ChoiceRange& range) {
  const TuningCase& what = measured.what;
  const std::size_t best = best_of(measured);
  TuningChoice choice;
  choice.entry = what.candidates[best];
  choice.entry.collective = what.collective;
  choice.entry.min_ranks = what.ranks;
  choice.entry.max_ranks = range.max_ranks;
  choice.entry.min_per_node = what.per_node;
  choice.entry.max_per_node = range.max_per_node;
  choice.by_default = best == what.by_default;
  choice.first_bytes = choice.last_bytes = what.bytes;
  choice.first_ns = choice.last_ns = measured.ns[best];
  choice.first_default_ns = choice.last_default_ns = measured.ns[what.by_default];
  choice.gain = choice.first_default_ns / std::max(choice.first_ns, 1.0);
  return choice;
}

/// Whether two choices for one collective are equal, apart from their sizes.
bool is_same(const TuningChoice& a, const TuningChoice& b) {
  const coll::TuningEntry &x = a.entry, &y = b.entry;
  return a.by_default == b.by_default && x.collective == y.collective && x.eager == y.eager &&
         x.algorithm == y.algorithm && x.variant == y.variant && x.chunk_bytes == y.chunk_bytes &&
         x.turns == y.turns;
}

}  // namespace

std::uint32_t last_ranks(std::uint32_t ranks, std::uint32_t next) {
  const std::uint32_t last = ranks == 2 ? 2 : 2 * ranks - 1;
  return next == 0 ? last : std::min(last, next - 1);
}

std::uint32_t last_per_node(std::uint32_t next) {
  return next == 0 ? coll::TuningEntry::any_ranks : next - 1;
}

std::vector<TuningChoice> choose(const std::vector<MeasuredCase>& measured,
                                 const ChoiceRange& range) {
  std::vector<TuningChoice> choices;
  for (const MeasuredCase& one : measured) {
    const TuningChoice next = choice_of(one, range);
    TuningChoice* const last = choices.empty() ? nullptr : &choices.back();
    if (last != nullptr && is_same(*last, next)) {
      last->last_bytes = next.last_bytes;
      last->last_ns = next.last_ns;
      last->last_default_ns = next.last_default_ns;
      last->gain = std::max(last->gain, next.gain);
      continue;
    }
    const bool follows = last != nullptr && last->entry.collective == next.entry.collective;
    choices.push_back(next);
    if (!follows) continue;
    TuningChoice& before = choices[choices.size() - 2];
    before.entry.max_bytes = between(before.last_bytes, next.first_bytes);
    choices.back().entry.min_bytes = before.entry.max_bytes + 1;
  }
  return choices;
}

coll::Tuning tuning_of(const std::vector<TuningChoice>& choices) {
  std::vector<const TuningChoice*> kept;
  for (const TuningChoice& choice : choices)
    if (!choice.by_default) kept.push_back(&choice);
  std::stable_sort(kept.begin(), kept.end(),
                   [](const TuningChoice* a, const TuningChoice* b) { return a->gain > b->gain; });
  kept.resize(std::min(kept.size(), coll::Tuning::max_entries));
  std::sort(kept.begin(), kept.end());  // restores the order
  coll::Tuning tuning;
  for (const TuningChoice* choice : kept) tuning.entries.push_back(choice->entry);
  return tuning;
}

}  // namespace penstock::bench
