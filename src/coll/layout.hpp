// The words of a communicator in the pool, for n ranks:
//
//   words     n rows     row p: a line for each half of p's slots, with a doorbell for each slot
//                        and p's failure word; the first line also has p's call, published once
//                        p has waited long, and the last collective that p has finished
//   changes   n lines    line p: the first crossing at which p can change, its vote, and the point
//                        at which it left the switch
//   late slots  8 lines  written once by rank 0: the place of the slots, or why there are none;
//                        only with late slots (late_slots.hpp)
//   eager     n rows     row p: p's eager blocks, in tagged lines
//   direct    n rows     row p: words that other ranks' GPUs write for p's GPU
//                        (direct_program.hpp); only with Shape::direct
//   flagged   n rows     row p: p's blocks of units that carry data and flag (flagged_units.hpp);
//                        only with Shape::flagged_bytes
//   releases  n rows     row p: a word for each consumer of p's chunks, eight to a line
//   slots     n rows     row p: two halves of slots, used in turn; with several devices they lie in
//                        areas of their own (placement.hpp), and late slots in one area of theirs
//
// Only rank p writes its words, its eager blocks and its slots. A line of releases has several
// writers, by publish_word (rule 5 of the memory model). Words of a later collective are greater.
// Everything before the releases is zero before the first use. Each rank clears its own row of
// releases before it publishes a chunk that could be released. Explained in
// docs/protocols/collectives.md.
#pragma once

#include <cstdint>

#include "base/checked.hpp"
#include "coherence/coherence.hpp"
#include "coll/communicator.hpp"
#include "schedule/flagged_units.hpp"
#include "schedule/placement.hpp"

namespace penstock::coll {

inline constexpr std::uint64_t line_bytes = coherence::line_bytes;

/// Makes a word that is greater than all words of earlier collectives.
inline constexpr unsigned low_bits = 24;
constexpr std::uint64_t word_of(std::uint64_t collective, std::uint64_t low) {
  return collective << low_bits | low;
}
constexpr std::uint64_t collective_of(std::uint64_t word) {
  return word >> low_bits;
}
/// A release: "the first `chunks` chunks of this collective".
inline constexpr std::uint64_t max_chunks = (1ull << (low_bits - 2)) - 2;
constexpr std::uint64_t chunk_word(std::uint64_t collective, std::uint64_t chunks) {
  return word_of(collective, chunks << 1);
}
constexpr std::uint64_t chunks_of(std::uint64_t word) {
  return (word & ((1ull << low_bits) - 1)) >> 1;
}
/// Set in a doorbell whose chunk stays in the user's buffer (zero_copy.hpp).
inline constexpr std::uint64_t zero_copy_bit = 1;

/// A collective and the fingerprint of its call (fingerprint.hpp). It is the first doorbell of each
/// slot, the tag of the first eager line (line i has this tag + i), and the word of a rank's call.
/// Readers wait for exactly this word, so they ignore the words of a rank that is in another call.
inline constexpr unsigned fingerprint_bits = 22;
constexpr std::uint64_t opening_word(std::uint64_t collective, std::uint64_t fingerprint) {
  return word_of(collective, fingerprint << 1);
}
constexpr std::uint64_t fingerprint_of(std::uint64_t opening) {
  return opening >> 1 & ((1ull << fingerprint_bits) - 1);
}
inline constexpr std::uint64_t max_eager_lines = 1ull << 16;
/// Set in the doorbells of a slot's later chunks, and in the word of a call made by other means
/// than the pool.
inline constexpr std::uint64_t later_bit = 1ull << (low_bits - 1);
/// Bits of a chunk's number by which a reader distinguishes it from the previous chunk in the slot.
/// The other bits hold the fingerprint, since this may be the first doorbell that it awaits from
/// the producer.
inline constexpr unsigned later_chunk_bits = 8;
constexpr std::uint64_t later_doorbell(std::uint64_t collective, std::uint64_t chunk,
                                       std::uint64_t fingerprint) {
  const std::uint64_t which = chunk & ((1ull << later_chunk_bits) - 1);
  const std::uint64_t call = fingerprint << (later_chunk_bits + 1) & (later_bit - 1);
  return word_of(collective, later_bit | call | which << 1);
}

/// Indexes of the words after the doorbells in a line; the first two are only in a rank's first
/// line.
inline constexpr std::uint64_t call_word = 5, finished_word = 6, failed_word = 7;
/// The "finished" word of a rank that makes no more calls.
inline constexpr std::uint64_t all_finished = 1ull << 62;
/// Lines in which rank 0 publishes slots that come late.
inline constexpr std::uint64_t late_slots_lines = 8;
/// Number of words in a rank's row.
inline constexpr std::uint64_t row_words = halves * line_bytes / 8;

class Layout {
 public:
  Layout(std::uint32_t ranks, const Shape& shape) : n_(ranks), shape_(shape) {}

  std::uint64_t row(std::uint64_t rank) const { return rank * row_words * 8; }
  /// The line of the half that `collective` uses.
  std::uint64_t line(std::uint64_t rank, std::uint64_t collective) const {
    return row(rank) + collective % halves * line_bytes;
  }
  std::uint64_t doorbell(std::uint64_t rank, std::uint64_t collective, std::uint64_t chunk) const {
    return line(rank, collective) + chunk % shape_.slots * 8;
  }
  std::uint64_t call(std::uint64_t rank) const { return row(rank) + call_word * 8; }
  std::uint64_t finished(std::uint64_t rank) const { return row(rank) + finished_word * 8; }
  /// Each line holds this word.
  std::uint64_t failed(std::uint64_t rank, std::uint64_t collective = 0) const {
    return line(rank, collective) + failed_word * 8;
  }
  std::uint64_t change_offer(std::uint64_t rank) const { return (n_ * halves + rank) * line_bytes; }
  std::uint64_t change_vote(std::uint64_t rank) const { return change_offer(rank) + 8; }
  std::uint64_t left_switch(std::uint64_t rank) const { return change_offer(rank) + 16; }
  std::uint64_t late_slots() const { return n_ * (halves + 1) * line_bytes; }
  std::uint64_t release(std::uint64_t producer, std::uint64_t consumer) const {
    return releases_begin() + producer * row_bytes() + consumer * 8;
  }
  std::uint64_t eager(std::uint64_t rank, std::uint64_t collective) const {
    const std::uint64_t block = collective % shape_.eager_blocks;
    return eager_begin() + (rank * shape_.eager_blocks + block) * eager_block_bytes();
  }
  // The words of direct_program.hpp. Only p's GPU waits for row p, which holds the doorbells of
  // producers, the releases of consumers, and what each rank has finished.
  std::uint64_t direct_doorbell(std::uint64_t producer, std::uint64_t consumer) const {
    return direct_row(consumer) + producer * 8;
  }
  std::uint64_t direct_release(std::uint64_t producer, std::uint64_t consumer) const {
    return direct_row(producer) + row_bytes() + consumer * 8;
  }
  std::uint64_t direct_finished(std::uint64_t rank, std::uint64_t to) const {
    return direct_row(to) + 2 * row_bytes() + rank * 8;
  }
  std::uint64_t direct_row(std::uint64_t rank) const {
    return direct_begin() + rank * direct_row_bytes();
  }
  std::uint64_t direct_row_bytes() const { return 3 * row_bytes(); }
  std::uint64_t flagged(std::uint64_t rank, std::uint64_t call) const {
    const std::uint64_t block = call % flagged_blocks;
    return flagged_begin() + (rank * flagged_blocks + block) * flagged_block_bytes();
  }
  std::uint64_t flagged_block_bytes() const {
    return shape_.flagged_bytes / unit_payload * unit_bytes;
  }
  /// Bytes that one rank zeroes for all.
  std::uint64_t zeroed_bytes() const { return releases_begin(); }
  /// Where the slots begin, if they follow the words.
  std::uint64_t slots_begin() const {
    return base::align_up(releases_begin() + n_ * row_bytes(), 4096);
  }
  /// Bytes of a rank's releases.
  std::uint64_t row_bytes() const { return base::align_up(n_ * 8, line_bytes); }
  std::uint64_t eager_row_bytes() const { return shape_.eager_blocks * eager_block_bytes(); }

 private:
  std::uint64_t eager_block_bytes() const {
    return shape_.eager_bytes / coherence::tagged_bytes * line_bytes;
  }
  std::uint64_t direct_begin() const { return eager_begin() + n_ * eager_row_bytes(); }
  std::uint64_t eager_begin() const {
    return late_slots() + (shape_.late_slots ? late_slots_lines * line_bytes : 0);
  }
  std::uint64_t flagged_begin() const {
    return direct_begin() + (shape_.direct ? n_ * direct_row_bytes() : 0);
  }
  std::uint64_t releases_begin() const {
    return flagged_begin() + n_ * flagged_blocks * flagged_block_bytes();
  }

  std::uint64_t n_;
  Shape shape_;
};

}  // namespace penstock::coll
