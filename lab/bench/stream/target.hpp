// Where STREAM's arrays lie, and when a store to them counts as done.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/stream/kernels.hpp"
#include "bench/stream/recurrence.hpp"
#include "coherence/coherence.hpp"

namespace penstock::bench::stream {

/// A target's guarantee about results.
enum class Promise : std::uint8_t {
  none,
  persist,              ///< when its thread ends, each share is at the device
  transaction,          ///< all of a share or none of it, by an undo log
  transaction_no_copy,  ///< the same without old contents: flushed only at the commit
  observe,              ///< operands are invalidated before they are read
};
enum class Store : std::uint8_t { plain, past_the_cache };

/// One place and one way to use it; `parse_targets` makes several from one text.
struct TargetSpec {
  enum class Kind : std::uint8_t { memory, numa, pmem, pool } kind = Kind::memory;
  Promise promise = Promise::none;
  Store store = Store::plain;
  int node = 0;                         ///< for numa
  std::string place;                    ///< folder for pmem, SPEC of a pool; "": a temporary pool
  bool hoisted = true;                  ///< pmem: addresses are translated once, not for each
                                        ///< element
  std::optional<coherence::Mode> mode;  ///< for a pool
  /// For tests which show that the validation notices an omission.
  enum class LeftOut : std::uint8_t { nothing, publish, observe } left_out = LeftOut::nothing;
  std::string name() const;  ///< "pool+observe, software, plain"
};

struct TargetOptions {
  std::vector<Store> stores;           ///< empty: the usual ones of each target
  std::vector<coherence::Mode> modes;  ///< of pools that are made; empty: hardware, software
};
/// TEXT is memory, numa:K, pmem:FOLDER, pmem+persist:FOLDER, pmem+tx:FOLDER, pmem+tx-nosnap:FOLDER,
/// pool[:SPEC], pool+observe[:SPEC] or pool+tx[:SPEC]. An existing pool has its own mode. Errors:
/// invalid_argument; those of inspecting the pool.
Result<std::vector<TargetSpec>> parse_targets(const std::string& text,
                                              const TargetOptions& options);
const char* store_name(Store store);
Result<Store> parse_store(std::string_view text);

class Target {
 public:
  virtual ~Target() = default;
  /// For share_of(). Only run() needs the pointers, and only to distinguish the arrays.
  virtual Arrays arrays() const = 0;
  /// Sets the elements of one thread's part to the values before STREAM begins: 1, 2, 0.
  virtual void fill(Part part);
  /// Doubles a part of a.
  virtual void double_a(Part part);
  /// Runs one thread's share of a kernel, with this target's guarantee. Errors: those of
  /// transactions.
  virtual Result<void> run(const Share& share);
  /// Called once after fill and double_a: a later reader of the results sees these values first.
  virtual Result<void> filled() { return {}; }
  /// The arrays' errors against `expected`, as their reader finds them.
  virtual Result<Errors> compare(const Values& expected);
  /// Facts found about the memory: "100 % of 96 pages on node 0".
  virtual std::string facts() const { return ""; }

 protected:
  /// Gives the calling thread's plain stores to these bytes the target's guarantee.
  virtual void seal(const void*, std::size_t) {}
};

/// Makes the arrays, as large as asked, for `threads` threads. Errors: not_found (library, node,
/// folder), no_space, unavailable, those of pools.
Result<std::unique_ptr<Target>> open_target(const TargetSpec& spec, std::uint64_t elements,
                                            unsigned threads);
/// The most elements that an array of this target may have. Errors: those of open_target that are
/// known beforehand.
Result<std::uint64_t> max_elements(const TargetSpec& spec);

}  // namespace penstock::bench::stream
