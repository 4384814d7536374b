// Translates the arguments of a collective call for the pool: into the problem, the arithmetic, and
// the user's memory as blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "abi.hpp"
#include "coll/communicator.hpp"
#include "collective_words.hpp"
#include "datatypes.hpp"
#include "deferred_reduction.hpp"
#include "reduction_of.hpp"

namespace penstock::mpi {

enum class CollectiveCall : std::uint8_t {
#define PENSTOCK_COLLECTIVE(name, lower, n, kinds) lower,
#define PENSTOCK_COUNTED(name, lower, n, kinds) lower,
#include "collective_table.inc"
#undef PENSTOCK_COLLECTIVE
#undef PENSTOCK_COUNTED
};

/// An array of counts or displacements: ints or, in the forms with large counts, MPI_Count or
/// MPI_Aint.
class Numbers {
 public:
  Numbers() = default;
  Numbers(const void* at, bool large) : at_(at), large_(large) {}
  explicit operator bool() const { return at_ != nullptr; }
  Count operator[](std::size_t i) const {
    return large_ ? static_cast<const Count*>(at_)[i] : static_cast<const int*>(at_)[i];
  }

 private:
  const void* at_ = nullptr;
  bool large_ = false;
};

/// Arguments as the intercepted call received them, in registers or on the stack.
class Words {
 public:
  Words(std::span<const Word> words, bool large) : words_(words), large_(large) {}
  Count count(std::size_t i) const { return large_ ? static_cast<Count>(words_[i]) : integer(i); }
  int integer(std::size_t i) const { return static_cast<int>(words_[i]); }
  void* pointer(std::size_t i) const {
    return reinterpret_cast<void*>(words_[i]);  // NOLINT: a pointer in a word
  }
  Handle handle(std::size_t i) const { return incoming(words_[i]); }
  Numbers numbers(std::size_t i) const { return {pointer(i), large_}; }
  bool in_place(std::size_t i) const { return pointer(i) == constants().in_place; }

 private:
  std::span<const Word> words_;
  bool large_;
};

/// The user's memory on one side of a call (input or output), as blocks in one contiguous range:
/// the memory itself, or a packed copy if the type has holes. Buffers are reused, so a repeated
/// call allocates nothing.
class Side {
 public:
  explicit Side(std::vector<coll::Block>& blocks) : blocks_(blocks) {}

  void clear();
  /// Sets address and type. False if the type cannot be used in the pool.
  bool use(void* user, Handle type);
  /// Why use() returned false, if the types of other ranks may be usable all the same.
  const std::optional<Error>& too_much() const { return too_much_; }
  const std::shared_ptr<const Layout>& shared_layout() const { return layout_; }
  std::uint64_t size() const { return layout_->size; }
  /// Adds the same number of elements for each of `n` ranks, contiguously.
  bool add_equal(Count elements, std::uint32_t n);
  /// Adds a block for each of `n` ranks. Counts and displacements are in elements; without
  /// displacements the blocks are contiguous.
  bool add_each(Numbers counts, Numbers displacements, std::uint32_t n);
  std::uint64_t longest() const;
  /// True if there are data, the address is null and the type holds no absolute addresses: the MPI
  /// reports that error.
  bool is_nowhere() const {
    return layout_ != nullptr && user_ == nullptr && layout_->contiguous && longest() != 0;
  }
  /// Fills the block list. Returns the memory that contains the blocks.
  std::byte* place();
  /// Packs the user's data into the copy, if there is one.
  void load();
  /// Unpacks received data from the copy into the user's memory.
  void unload();

 private:
  /// `elements` of the type at an offset from the user's address.
  struct Piece {
    std::int64_t at = 0;
    std::uint64_t elements = 0;
  };
  void add(std::int64_t at, Count elements) {
    pieces_.push_back({at, static_cast<std::uint64_t>(elements)});
  }
  std::byte* place_as_is();

  std::vector<std::byte> packed_;
  std::vector<Piece> pieces_;
  std::vector<coll::Block>& blocks_;
  std::byte* user_ = nullptr;
  std::shared_ptr<const Layout> layout_;
  std::optional<Error> too_much_;
};

/// The arguments of collective calls, one call after the other; or of one persistent call, whose
/// arguments are read once.
class CollectiveArguments {
 public:
  CollectiveArguments() : in_(problem_.input), out_(problem_.output) {}
  CollectiveArguments(const CollectiveArguments&) = delete;
  CollectiveArguments& operator=(const CollectiveArguments&) = delete;

  /// Reads a call's arguments. False if the MPI has to do the call. In a correct program all ranks
  /// get the same answer; the MPI reports the errors of an incorrect one.
  bool read(CollectiveCall call, const Words& words, std::uint32_t ranks, std::uint32_t self);
  /// After read() returned false: set if this rank's type exceeds one of our limits, which other
  /// ranks' types may not. Other ranks may then be in the pool, so the MPI cannot do the call.
  /// Never set for reductions, whose type is the same on all ranks.
  const std::optional<Error>& too_much() const {
    const auto& found = in_.too_much() ? in_.too_much() : out_.too_much();
    return is_reduction() ? none_ : found;
  }
  /// After read(), for a nonblocking call: moves a reduction by the MPI, which may call a function
  /// of the user, to unload(). False if the MPI has to do the call; the same on all ranks.
  bool defer_reduction();
  /// The operation and the type that a deferred unload() uses; null if the program cannot free it.
  Handle op_in_use() const;
  Handle type_in_use() const;

  /// Reads the user's current input. To be called before each call.
  void load() {
    if (loaded_ != nullptr) loaded_->load();
  }
  /// Returns the call, without a plan: the caller chooses it. The fingerprint covers all arguments
  /// that the ranks must agree on.
  coll::Call call(const char* name);
  /// Delivers the result to the user's memory. To be called after each call.
  void unload() {
    if (deferred_) deferred_->reduce(std::get<MpiArithmetic>(reduction_), output_);
    if (unloaded_ != nullptr) unloaded_->unload();
  }

 private:
  bool read_arguments(CollectiveCall call);
  void begin(coll::Collective collective);
  bool is_reduction() const { return coll::is_reduction(problem_.collective); }
  bool is_reduced_by_mpi() const {
    return is_reduction() && std::holds_alternative<MpiArithmetic>(reduction_);
  }
  bool is_root() const { return problem_.rank == problem_.root; }
  bool set_root(std::size_t word);
  bool broadcast(std::size_t root);
  bool reduction(coll::Collective collective, std::optional<std::size_t> root, bool counts = false);
  bool gather(bool each);
  bool allgather(bool each);
  bool scatter(bool each);
  bool alltoall(bool each);
  bool use_input();
  bool use_scattered(bool each);
  bool use_output(bool each);
  bool place_gathered();
  void note_lengths(std::uint64_t sent, std::uint64_t got) { uneven_ = sent == got ? 0 : sent + 1; }
  /// Sets the buffers of the call. `loaded`: the side to load before the call; `unloaded`: the side
  /// to unload after it.
  bool place(const std::byte* input, std::byte* output, Side* loaded = nullptr,
             Side* unloaded = nullptr);

  Words words_{{}, false};
  coll::Problem problem_;
  Side in_, out_;
  /// 1 + the length in bytes of the parts that this rank sends, if the parts that it receives have
  /// another length; else 0.
  std::uint64_t uneven_ = 0;
  ReductionOf reduction_;  ///< of the last reduction, which had type_ and op_
  Handle type_ = 0, op_ = 0;
  std::optional<DeferredReduction> deferred_;
  const std::byte* input_ = nullptr;
  std::byte* output_ = nullptr;
  Side *loaded_ = nullptr, *unloaded_ = nullptr;
  const std::optional<Error> none_;
};

}  // namespace penstock::mpi
