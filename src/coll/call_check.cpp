#include "coll/call_check.hpp"

#include <algorithm>

#include "base/format.hpp"

namespace penstock::coll {

namespace {

/// Words further ahead than this are treated as corrupted.
constexpr std::uint64_t max_ahead = 1ull << 32;

/// Set in every second word when a rank publishes the same call again.
constexpr std::uint64_t again_bit = 1;

constexpr std::uint64_t counted = (1ull << fingerprint_bits) - 1;

/// Whether `a` is greater than `b`. Both counts wrap.
bool is_more(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t difference = (a - b) & counted;
  return difference != 0 && difference <= counted / 2;
}

}  // namespace

void CallCheck::begin() {
  in_switch_ = false;
  ahead_.clear();
  if (!wanted_) return;
  announce(s_.opening());
  awaited_ = s_.group.others();
}

void CallCheck::announce(std::uint64_t word) {
  announced_ = word;
  s_.own.publish_word(s_.layout.call(s_.self()), word);
  s_.published();
  s_.send_off();
}

void CallCheck::leave() {
  if (s_.number != 0 && !s_.failure()) announce(s_.opening());
}

std::optional<Error> CallCheck::difference_of_last(const char* what) const {
  if (s_.failure()) return std::nullopt;
  for (const std::uint32_t rank : s_.group.others())
    s_.memory_of(rank).invalidate(s_.at(s_.layout.call(rank)), 8);
  s_.memory_of_all().load_fence();
  for (const std::uint32_t rank : s_.group.others()) {
    const std::uint64_t call = s_.memory_of(rank).load_word(s_.at(s_.layout.call(rank)));
    if (auto error = another_call(what, rank, call)) return error;
  }
  return std::nullopt;
}

void CallCheck::note_elsewhere(bool announces) {
  const std::uint64_t count = ++elsewhere_;
  if (announces) announce(word_of(s_.begun() + 1, later_bit | (count & counted) << 1));
}

/// An error if `word`, published by `rank`, belongs to this collective but describes another call.
std::optional<Error> CallCheck::another_call(const char* what, std::uint32_t rank,
                                             std::uint64_t word) const {
  if (collective_of(word) != s_.number) return std::nullopt;
  const std::string name = s_.group.name(rank);
  if ((word & later_bit) == 0) {
    if (fingerprint_of(word) == s_.fingerprints.current()) return std::nullopt;
    return Error{ErrorCode::mismatch,
                 fmt::format("{}: {} {}", what, name,
                             s_.fingerprints.difference(fingerprint_of(word), s_.group.ranks()))};
  }
  // If this rank has made at least as many such calls, `rank` has left the call that it counts.
  if (!is_more(fingerprint_of(word), elsewhere_.load() & counted)) return std::nullopt;
  return Error{ErrorCode::mismatch,
               fmt::format("{}: {} makes a call that the pool cannot do, and this rank one that it "
                           "can: their types or operations differ",
                           what, name)};
}

std::optional<Error> CallCheck::finds_another(const char* what, std::uint32_t rank) const {
  const auto& memory = s_.memory_of(rank);
  const std::uint64_t call = memory.load_word(s_.at(s_.layout.call(rank)));
  if (auto error = another_call(what, rank, call)) return error;
  const std::byte* const block = s_.at(s_.layout.eager(rank, s_.number));
  if (auto error = another_call(what, rank, memory.load_word(block + coherence::tagged_bytes)))
    return error;
  for (std::uint32_t slot = 0; slot < s_.shape.slots; ++slot) {
    const std::uint64_t bell = memory.load_word(s_.at(s_.layout.doorbell(rank, s_.number, slot)));
    if ((bell & later_bit) != 0) continue;
    if (auto error = another_call(what, rank, bell)) return error;
  }
  return std::nullopt;
}

/// The call that `rank` has published if it is later than this rank's call, else 0. `rank`
/// publishes it again each time it has restored its words.
std::uint64_t CallCheck::later_call(std::uint32_t rank) const {
  const auto& memory = s_.memory_of(rank);
  if (memory.load_word(s_.at(s_.layout.finished(rank))) == all_finished) return all_finished;
  const std::uint64_t call = memory.load_word(s_.at(s_.layout.call(rank)));
  const std::uint64_t begun = collective_of(call);
  return begun > s_.number && begun <= s_.number + max_ahead ? call : 0;
}

/// Whether `rank` will never do the work that this rank waits for. `rank` wrote its words of this
/// call before it published a later one, and restores overwritten words before it publishes again.
bool CallCheck::has_gone_on(std::uint32_t rank) {
  constexpr std::uint32_t enough = 3;
  const std::uint64_t call = later_call(rank);
  const auto known = std::find_if(ahead_.begin(), ahead_.end(),
                                  [rank](const Ahead& ahead) { return ahead.rank == rank; });
  if (call == 0) return false;
  if (known == ahead_.end()) {
    ahead_.push_back({.rank = rank, .call = call});
    return false;
  }
  if (known->call != call || call == all_finished) ++known->announcements;
  known->call = call;
  return known->announcements >= enough;
}

void CallCheck::observe_words(const std::vector<std::uint32_t>& ranks) const {
  for (const std::uint32_t rank : ranks) {
    s_.memory_of(rank).invalidate(s_.at(s_.layout.row(rank)), row_words * 8);
    s_.memory_of(rank).invalidate(s_.at(s_.layout.eager(rank, s_.number)), line_bytes);
  }
  s_.memory_of_all().load_fence();
}

std::optional<Error> CallCheck::difference_of(const char* what,
                                              const std::vector<std::uint32_t>& ranks) const {
  observe_words(ranks);
  for (const std::uint32_t rank : ranks) {
    if (rank == s_.self()) continue;
    if (auto error = finds_another(what, rank)) return error;
  }
  return std::nullopt;
}

std::optional<Error> CallCheck::difference_of_failed(const char* what) const {
  return difference_of(what, s_.group.others());
}

/// Adds a few ranks, so that every rank gets its turn.
void CallCheck::add_some_others(std::vector<std::uint32_t>& ranks) {
  constexpr std::uint32_t at_once = 8;
  const std::uint32_t all = s_.group.ranks(), count = std::min(all, at_once);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t rank = (next_other_ + i) % all;
    if (rank != s_.self()) ranks.push_back(rank);
  }
  next_other_ = (next_other_ + count) % all;
}

Result<void> CallCheck::compare(const char* what, const Missing& missing) {
  announce(announced_ == s_.opening() ? s_.opening() | again_bit : s_.opening());
  // An awaited rank may only have read in its call, and written nothing. Then the difference shows
  // in the words of the rank from which it read.
  std::vector<std::uint32_t> ranks = missing;
  add_some_others(ranks);
  if (auto error = difference_of(what, ranks)) return unexpected(*std::move(error));
  for (const std::uint32_t rank : missing) {
    if (rank != s_.self() && !in_switch_ && has_gone_on(rank))
      return fail(ErrorCode::mismatch,
                  "{}: {} has gone on to a later call, and did not do here what this rank waits "
                  "for: the root, the size or the collective differs; PENSTOCK_COLL_CHECK=1 "
                  "compares the calls of all ranks",
                  what, s_.group.name(rank));
  }
  return {};
}

Result<bool> CallCheck::all_agree(const char* what, Missing& missing) {
  if (awaited_.empty()) return true;
  for (const std::uint32_t rank : awaited_)
    s_.memory_of(rank).invalidate(s_.at(s_.layout.call(rank)), 8);
  s_.memory_of_all().load_fence();
  missing.clear();
  for (const std::uint32_t rank : awaited_) {
    const std::uint64_t call = s_.memory_of(rank).load_word(s_.at(s_.layout.call(rank)));
    if (auto error = another_call(what, rank, call)) return unexpected(*std::move(error));
    // A rank that is ahead has already compared this call.
    if (collective_of(call) < s_.number ||
        (collective_of(call) == s_.number && (call & ~again_bit) != s_.opening()))
      missing.push_back(rank);
  }
  awaited_ = missing;
  return awaited_.empty();
}

}  // namespace penstock::coll
