#include "coll/call_check.hpp"

#include "base/checksum.hpp"
#include "base/format.hpp"

namespace penstock::coll {

namespace {

// A call in the lower 24 bits of a word: what fits of it, and a hash of the sizes.
constexpr unsigned kind_bits = 4, root_bits = 9, hash_bits = 11;
static_assert(kind_bits + root_bits + hash_bits == low_bits);

std::uint64_t signature_of(const Problem& problem, bool eager, std::uint64_t fingerprint) {
  const std::uint64_t sizes[] = {problem.max_block_bytes ? *problem.max_block_bytes + 1 : 0,
                                 problem.element_bytes, problem.root, eager, fingerprint};
  const std::uint64_t kind = static_cast<std::uint64_t>(problem.collective);
  const std::uint64_t hash = base::xxh64(sizes, sizeof sizes, 0) & ((1u << hash_bits) - 1);
  return (kind << root_bits | (problem.root & ((1u << root_bits) - 1))) << hash_bits | hash;
}

std::string words_of(std::uint64_t call) {
  const auto kind =
      static_cast<Collective>(call >> (root_bits + hash_bits) & ((1u << kind_bits) - 1));
  const std::uint64_t root = call >> hash_bits & ((1u << root_bits) - 1);
  const bool has_root = kind == Collective::broadcast || kind == Collective::gather ||
                        kind == Collective::scatter || kind == Collective::reduce;
  if (kind > Collective::exscan) return "something else";
  return has_root ? fmt::format("{} with root {}", name_of(kind), root) : name_of(kind);
}

}  // namespace

void CallCheck::begin(const Problem& problem, bool eager, std::uint64_t fingerprint) {
  if (!wanted_) return;
  own_ = word_of(s_.number, signature_of(problem, eager, fingerprint));
  s_.own.publish_word(s_.layout.call(s_.self()), own_);
  s_.published();
  s_.send_off();
  awaited_ = s_.group.others();
}

Error CallCheck::differs(const char* what, std::uint32_t rank, std::uint64_t call) const {
  const std::string theirs = words_of(call), ours = words_of(own_);
  return {ErrorCode::mismatch,
          fmt::format("{}: {} calls {}, and this rank {}{}", what, s_.group.name(rank), theirs,
                      ours, theirs == ours ? " of another size or type" : "")};
}

Result<bool> CallCheck::all_agree(const char* what, Missing& missing) {
  if (awaited_.empty()) return true;
  for (const std::uint32_t rank : awaited_)
    s_.memory_of(rank).invalidate(s_.at(s_.layout.call(rank)), 8);
  s_.memory_of_all().load_fence();
  missing.clear();
  for (const std::uint32_t rank : awaited_) {
    const std::uint64_t call = s_.memory_of(rank).load_word(s_.at(s_.layout.call(rank)));
    if (collective_of(call) < s_.number) missing.push_back(rank);
    // Who is ahead has compared already.
    if (collective_of(call) == s_.number && call != own_)
      return unexpected(differs(what, rank, call));
  }
  awaited_ = missing;
  return awaited_.empty();
}

}  // namespace penstock::coll
