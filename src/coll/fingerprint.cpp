#include "coll/fingerprint.hpp"

#include <algorithm>
#include <vector>

#include "base/checksum.hpp"
#include "base/format.hpp"
#include "coll/layout.hpp"

namespace penstock::coll {

namespace {

constexpr std::uint64_t byte = 0xff;
constexpr unsigned besides_bits = 16;

/// The size of blocks, if all ranks know the size of each.
std::uint64_t size_of(const std::vector<Block>& blocks, std::uint32_t element_bytes) {
  std::vector<std::uint64_t> sizes;
  for (const Block& block : blocks) sizes.push_back(block.bytes / element_bytes);
  const bool equal = std::all_of(sizes.begin(), sizes.end(),
                                 [&](std::uint64_t size) { return size == sizes.front(); });
  if (equal && !sizes.empty()) return sizes.front() + 1;
  return base::xxh64(sizes.data(), sizes.size() * sizeof sizes.front(), 0);
}

std::optional<Datatype> type_of(std::uint64_t reduction) {
  const std::uint64_t type = reduction & byte;
  if (type == 0 || type > datatype_count) return std::nullopt;
  return static_cast<Datatype>(type - 1);
}
std::optional<Operation> operation_of(std::uint64_t reduction) {
  const std::uint64_t operation = reduction >> 8 & byte;
  if (operation == 0 || operation > operation_count) return std::nullopt;
  return static_cast<Operation>(operation - 1);
}
std::uint64_t with(std::uint64_t reduction, Datatype type, Operation operation) {
  return reduction >> besides_bits << besides_bits |
         (static_cast<std::uint64_t>(operation) + 1) << 8 | (static_cast<std::uint64_t>(type) + 1);
}

/// Greater values are hashes of unequal blocks, and are not printed as sizes.
constexpr std::uint64_t greatest_size = 1ull << 48;

std::string words_of(const CallFacts& facts) {
  std::string words = name_of(facts.collective);
  const auto type = type_of(facts.reduction);
  if (facts.size != 0 && facts.size < greatest_size && facts.collective != Collective::barrier) {
    const char* const unit = is_reduction(facts.collective) ? "elements" : "bytes";
    words += fmt::format(" of {} {}", facts.size - 1, type ? name_of(*type) : unit);
  } else if (type) {
    words += fmt::format(" of {}", name_of(*type));
  }
  if (const auto operation = operation_of(facts.reduction))
    words += fmt::format(" by {}", name_of(*operation));
  if (has_root(facts.collective)) words += fmt::format(" with root {}", facts.root);
  return words;
}

using Visit = std::function<bool(const CallFacts&)>;

bool visit_other_roots(CallFacts facts, std::uint32_t ranks, const Visit& visit) {
  if (!has_root(facts.collective)) return false;
  for (facts.root = 0; facts.root < ranks; ++facts.root)
    if (visit(facts)) return true;
  return false;
}

/// Visits other operations, and other types with as many elements or as many bytes.
bool visit_other_reductions(const CallFacts& facts, const Visit& visit) {
  const auto own_type = type_of(facts.reduction);
  const auto own_operation = operation_of(facts.reduction);
  if (!own_type || !own_operation) return false;
  CallFacts other = facts;
  for (std::uint32_t i = 0; i < operation_count; ++i) {
    other.reduction = with(facts.reduction, *own_type, static_cast<Operation>(i));
    if (visit(other)) return true;
  }
  for (std::uint32_t i = 0; i < datatype_count; ++i) {
    const auto type = static_cast<Datatype>(i);
    other = facts;
    other.reduction = with(facts.reduction, type, *own_operation);
    if (visit(other)) return true;
    const std::uint64_t bytes = (facts.size - 1) * bytes_of(*own_type);
    other.size = bytes / bytes_of(type) + 1;
    if (facts.size < greatest_size && bytes % bytes_of(type) == 0 && visit(other)) return true;
  }
  return false;
}

/// Visits all movements of `bytes` bytes.
bool visit_movements(std::uint64_t bytes, std::uint32_t ranks, const Visit& visit) {
  for (std::size_t i = 0; i < collective_count; ++i) {
    CallFacts other{.collective = static_cast<Collective>(i), .size = bytes + 1};
    if (other.collective == Collective::barrier || is_reduction(other.collective)) continue;
    if (visit(other) || visit_other_roots(other, ranks, visit)) return true;
  }
  return false;
}

/// Visits all reductions of `bytes` bytes, with each type.
bool visit_reductions(std::uint64_t bytes, std::uint32_t ranks, const Visit& visit) {
  for (std::size_t i = 0; i < collective_count; ++i) {
    CallFacts other{.collective = static_cast<Collective>(i)};
    if (!is_reduction(other.collective)) continue;
    for (std::uint32_t type = 0; type < datatype_count; ++type) {
      for (std::uint32_t operation = 0; operation < operation_count; ++operation) {
        other.root = 0;
        other.size = bytes / bytes_of(static_cast<Datatype>(type)) + 1;
        other.reduction =
            reduction_word(static_cast<Datatype>(type), static_cast<Operation>(operation));
        if (visit(other) || visit_other_roots(other, ranks, visit)) return true;
      }
    }
  }
  return false;
}

bool visit_other_collectives(const CallFacts& facts, std::uint32_t ranks, const Visit& visit) {
  if (visit({.collective = Collective::barrier})) return true;
  if (facts.size == 0 || facts.size >= greatest_size) return false;
  const auto type = type_of(facts.reduction);
  const std::uint64_t bytes = (facts.size - 1) * (type ? bytes_of(*type) : 1);
  if (visit_movements(bytes, ranks, visit)) return true;
  if (!is_reduction(facts.collective)) return visit_reductions(bytes, ranks, visit);
  for (std::size_t i = 0; i < collective_count; ++i) {
    CallFacts other = facts;
    other.collective = static_cast<Collective>(i);
    other.root = 0;
    if (!is_reduction(other.collective)) continue;
    if (visit(other) || visit_other_roots(other, ranks, visit)) return true;
  }
  return false;
}

/// Visits small sizes, and sizes near this rank's own. They are so few that a chance match is
/// unlikely.
bool visit_other_sizes(const CallFacts& facts, const Visit& visit) {
  constexpr std::uint64_t small = 2048, near = 1024;
  if (facts.size == 0 || facts.collective == Collective::barrier) return false;
  CallFacts other = facts;
  const auto visit_some = [&](std::uint64_t from, std::uint64_t count) {
    for (other.size = from; other.size < from + count; ++other.size)
      if (visit(other)) return true;
    return false;
  };
  return visit_some(1, small) || visit_some(facts.size > near ? facts.size - near : 1, 2 * near);
}

}  // namespace

CallFacts facts_of(const Problem& problem) {
  CallFacts facts{.collective = problem.collective};
  if (has_root(problem.collective)) facts.root = problem.root;
  if (problem.collective == Collective::barrier || !problem.max_block_bytes) return facts;
  facts.size = *problem.max_block_bytes / problem.element_bytes + 1;
  if (is_reduction(problem.collective) && spreads(problem.collective))
    facts.size = size_of(problem.input, problem.element_bytes);
  if (problem.collective == Collective::allgather) facts.size = size_of(problem.output, 1);
  return facts;
}

std::uint64_t reduction_word(Datatype type, Operation operation, std::uint64_t besides) {
  return with(besides << besides_bits, type, operation);
}

std::uint64_t reduction_word(std::uint64_t besides) {
  return besides << besides_bits;
}

std::uint64_t Fingerprints::current() const {
  return chain_ >> (64 - fingerprint_bits);
}

/// The current fingerprint if the call `back` calls ago had been `tried`.
std::uint64_t Fingerprints::end_of_chain(std::uint64_t back, const CallFacts& tried) const {
  std::uint64_t chain = chained(past(back).before, tried);
  while (back-- > 0) chain = chained(chain, past(back).facts);
  return chain >> (64 - fingerprint_bits);
}

std::string Fingerprints::difference(std::uint64_t theirs, std::uint32_t ranks) const {
  const std::uint64_t known = std::min<std::uint64_t>(begun_, past_.size());
  for (std::uint64_t back = 0; back < known; ++back) {
    const CallFacts& own = past(back).facts;
    std::string words;
    const Visit visit = [&](const CallFacts& tried) {
      if (end_of_chain(back, tried) != theirs) return false;
      const std::string called =
          back == 0 ? "calls" : fmt::format("{} call{} ago called", back, back == 1 ? "" : "s");
      words = fmt::format("{} {}, and this rank {}", called, words_of(tried), words_of(own));
      return true;
    };
    if (visit_other_roots(own, ranks, visit) || visit_other_reductions(own, visit) ||
        visit_other_collectives(own, ranks, visit) || (back < 2 && visit_other_sizes(own, visit)))
      return words;
  }
  return fmt::format(
      "makes another call than this rank, or made one earlier, or with another size, type or "
      "operation; this rank calls {} now",
      words_of(past(0).facts));
}

}  // namespace penstock::coll
