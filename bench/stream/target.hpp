// Where STREAM's arrays lie, and what a store to them has to do until it counts as done.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/stream/kernels.hpp"
#include "bench/stream/recurrence.hpp"
#include "coherence/coherence.hpp"

namespace penstock::bench::stream {

/// What a target promises of results beside that they are there.
enum class Promise : std::uint8_t {
  none,
  persist,              ///< each share is at the device when its thread ends
  transaction,          ///< all of a share or nothing of it, by an undo log
  transaction_no_copy,  ///< the same without old contents: flushed at the commit only
  observe,              ///< operands are invalidated before they are read
};
enum class Store : std::uint8_t { plain, past_the_cache };

/// One place and one way to use it; `parse_targets` makes several of one text.
struct TargetSpec {
  enum class Kind : std::uint8_t { memory, numa, pmem, pool } kind = Kind::memory;
  Promise promise = Promise::none;
  Store store = Store::plain;
  int node = 0;                         ///< of numa
  std::string place;                    ///< folder of pmem, SPEC of a pool, "" for a temporary one
  bool hoisted = true;                  ///< pmem: addresses are translated once, not an element
  std::optional<coherence::Mode> mode;  ///< of a pool
  /// For tests, which show that the validation notices.
  enum class LeftOut : std::uint8_t { nothing, publish, observe } left_out = LeftOut::nothing;
  std::string name() const;  ///< "pool+observe, software, plain"
};

struct TargetOptions {
  std::vector<Store> stores;           ///< empty: what each target is for
  std::vector<coherence::Mode> modes;  ///< of pools that are made; empty: hardware, software
};
/// TEXT is memory, numa:K, pmem:FOLDER, pmem+persist:FOLDER, pmem+tx:FOLDER, pmem+tx-nosnap:FOLDER,
/// pool[:SPEC], pool+observe[:SPEC] or pool+tx[:SPEC]. A pool that is there has its own mode.
/// Errors: invalid_argument; those of inspecting the pool.
Result<std::vector<TargetSpec>> parse_targets(const std::string& text,
                                              const TargetOptions& options);
const char* store_name(Store store);
Result<Store> parse_store(std::string_view text);

class Target {
 public:
  virtual ~Target() = default;
  /// For share_of(). The pointers need be addresses only to run(), where they tell the arrays
  /// apart.
  virtual Arrays arrays() const = 0;
  /// Gives the elements of one thread's part their values before STREAM begins: 1, 2, 0.
  virtual void fill(Part part);
  /// A part of a = 2 a.
  virtual void double_a(Part part);
  /// One thread's share of a kernel, with what this target promises. Errors: of transactions.
  virtual Result<void> run(const Share& share);
  /// Called once after fill and double_a: what reads the results later sees these first.
  virtual Result<void> filled() { return {}; }
  /// How far the arrays are from `expected`, as who is to read them finds them.
  virtual Result<Errors> compare(const Values& expected);
  /// What was found out about the memory: "100 % of 96 pages on node 0".
  virtual std::string facts() const { return ""; }

 protected:
  /// The calling thread's plain stores to these bytes become what the target promises.
  virtual void seal(const void*, std::size_t) {}
};

/// Makes the arrays, as large as asked, for so many threads. Errors: not_found (library, node,
/// folder), no_space, unavailable, those of pools.
Result<std::unique_ptr<Target>> open_target(const TargetSpec& spec, std::uint64_t elements,
                                            unsigned threads);
/// Elements an array of this target may have at most. Errors: as open_target, as far as they are
/// known before.
Result<std::uint64_t> max_elements(const TargetSpec& spec);

}  // namespace penstock::bench::stream
