#include "pool_collectives.hpp"

#include <algorithm>
#include <string>
#include <string_view>

#include "attachment.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "datatypes.hpp"
#include "errors.hpp"
#include "pmpi.hpp"
#include "pool_comms.hpp"
#include "reduction_of.hpp"

namespace penstock::mpi {

namespace {

using coll::Block;
using coll::Collective;

/// Arguments as they came in registers or on the stack.
class Words {
 public:
  Words(std::span<const Word> words, bool large) : words_(words), large_(large) {}
  Count count(std::size_t i) const { return large_ ? static_cast<Count>(words_[i]) : integer(i); }
  int integer(std::size_t i) const { return static_cast<int>(words_[i]); }
  void* pointer(std::size_t i) const {
    return reinterpret_cast<void*>(words_[i]);  // NOLINT: a pointer in a word
  }
  Handle handle(std::size_t i) const { return incoming(words_[i]); }
  const int* integers(std::size_t i) const { return static_cast<const int*>(pointer(i)); }
  bool in_place(std::size_t i) const { return pointer(i) == constants().in_place; }

 private:
  std::span<const Word> words_;
  bool large_;
};

/// The user's memory at one side of a call, as blocks that lie in one piece of memory: the memory
/// itself, or a packed copy where the type has holes.
class Side {
 public:
  Side(SideMemory& memory, std::vector<Block>& blocks)
      : packed_(memory.packed), pieces_(memory.pieces), blocks_(blocks) {
    blocks_.clear();
    pieces_.clear();
  }

  /// False: the type cannot be used here.
  bool use(void* user, Handle type) {
    user_ = static_cast<std::byte*>(user);
    if (type == constants().datatype_null) return false;
    auto layout = layout_of(type);
    if (!layout) return false;
    layout_ = *std::move(layout);
    return true;
  }
  const std::shared_ptr<const Layout>& shared_layout() const { return layout_; }
  std::uint64_t size() const { return layout_->size; }
  /// The same number of elements for each of `n` ranks, one after the other.
  bool add_equal(Count elements, std::uint32_t n) {
    if (elements < 0) return false;
    for (std::uint32_t rank = 0; rank < n; ++rank)
      add(static_cast<std::int64_t>(rank) * elements * layout_->extent, elements);
    return true;
  }
  /// Counts and displacements in elements; without displacements one after the other.
  bool add_each(const int* counts, const int* displacements, std::uint32_t n) {
    std::int64_t next = 0;
    for (std::uint32_t rank = 0; rank < n; ++rank) {
      if (counts[rank] < 0) return false;
      const std::int64_t at = displacements != nullptr ? displacements[rank] : next;
      next += counts[rank];
      add(at * layout_->extent, counts[rank]);
    }
    return true;
  }
  std::uint64_t longest() const {
    std::uint64_t most = 0;
    for (const Piece& piece : pieces_) most = std::max(most, piece.elements * size());
    return most;
  }
  /// Data at no address, of a type that has no address of its own: the MPI reports it.
  bool is_nowhere() const {
    return layout_ != nullptr && user_ == nullptr && layout_->contiguous && longest() != 0;
  }
  /// Fills the blocks; `load`: with what the user has there. Returns the memory that they lie in.
  std::byte* place(bool load) {
    if (layout_->contiguous) return place_as_is();
    std::uint64_t bytes = 0;
    for (const Piece& piece : pieces_) {
      blocks_.push_back({bytes, piece.elements * size()});
      bytes += blocks_.back().bytes;
    }
    if (packed_.size() < bytes) packed_.resize(bytes);
    for (std::size_t i = 0; load && i < pieces_.size(); ++i)
      gather(*layout_, user_ + pieces_[i].at, pieces_[i].elements,
             packed_.data() + blocks_[i].offset);
    return packed_.data();
  }
  /// Puts what has come where the user wants it.
  void unload() {
    if (layout_->contiguous) return;
    for (std::size_t i = 0; i < pieces_.size(); ++i)
      scatter(*layout_, packed_.data() + blocks_[i].offset, user_ + pieces_[i].at,
              pieces_[i].elements);
  }

 private:
  void add(std::int64_t at, Count elements) {
    pieces_.push_back({at, static_cast<std::uint64_t>(elements)});
  }
  std::byte* place_as_is() {
    std::int64_t begin = 0;
    for (const Piece& piece : pieces_) begin = std::min(begin, piece.at);
    for (const Piece& piece : pieces_)
      blocks_.push_back({static_cast<std::uint64_t>(piece.at - begin), piece.elements * size()});
    return user_ + begin;
  }

  std::vector<std::byte>& packed_;
  std::vector<Piece>& pieces_;
  std::vector<Block>& blocks_;
  std::byte* user_ = nullptr;
  std::shared_ptr<const Layout> layout_;
};

/// One call. Each function returns nullopt where the MPI has to do it, which all ranks decide alike
/// in a program that is correct; what is not the MPI reports.
class CallInPool {
 public:
  CallInPool(PoolComm& comm, Words words, const char* name)
      : comm_(comm),
        words_(words),
        name_(name),
        problem_(comm.problem),
        in_(comm.input, problem_.input),
        out_(comm.output, problem_.output) {}

  std::optional<int> barrier() {
    begin(Collective::barrier);
    return run(nullptr, nullptr);
  }

  std::optional<int> broadcast(std::size_t root) {
    begin(Collective::broadcast);
    if (!set_root(root)) return std::nullopt;
    Side& side = is_root() ? in_ : out_;
    if (!side.use(words_.pointer(0), words_.handle(2)) || !side.add_equal(words_.count(1), 1))
      return std::nullopt;
    problem_.max_block_bytes = side.longest();
    std::byte* const data = side.place(is_root());
    return run(data, data, is_root() ? nullptr : &side);
  }

  /// `counts`: of MPI_Reduce_scatter.
  std::optional<int> reduction(Collective collective, std::optional<std::size_t> root,
                               bool counts = false) {
    begin(collective);
    if (root && !set_root(*root)) return std::nullopt;
    const Handle type = words_.handle(3), op = words_.handle(4);
    const bool gets = collective != Collective::reduce || is_root();
    const bool scatters = collective == Collective::reduce_scatter;
    problem_.in_place = gets && words_.in_place(0);
    void* const input = problem_.in_place ? words_.pointer(1) : words_.pointer(0);
    if (!in_.use(input, type) || !out_.use(words_.pointer(1), type)) return std::nullopt;
    const auto arithmetic = reduction_of(type, op, in_.shared_layout(), comm_.ranks());
    if (std::holds_alternative<std::monostate>(arithmetic)) return std::nullopt;
    const std::uint32_t blocks = scatters ? comm_.ranks() : 1;
    const int* const of_ranks = counts ? words_.integers(2) : nullptr;
    if (counts ? !in_.add_each(of_ranks, nullptr, blocks) : !in_.add_equal(words_.count(2), blocks))
      return std::nullopt;
    if (gets) out_.add_equal(counts ? of_ranks[comm_.self()] : words_.count(2), 1);
    problem_.element_bytes = static_cast<std::uint32_t>(in_.size());
    problem_.max_block_bytes = in_.longest();
    const std::byte* const from = in_.place(true);
    std::byte* const to = gets ? out_.place(false) : nullptr;
    problem_.in_place = from == to;  // not where they are packed
    return run(from, to, gets ? &out_ : nullptr, arithmetic_in(arithmetic));
  }

  /// MPI_Gather and MPI_Gatherv.
  std::optional<int> gather(bool each) {
    begin(Collective::gather);
    if (!set_root(each ? 7 : 6)) return std::nullopt;
    problem_.in_place = is_root() && words_.in_place(0);
    if (is_root() && !use_output(each)) return std::nullopt;
    if (!problem_.in_place && !use_input()) return std::nullopt;
    if (!each) problem_.max_block_bytes = problem_.in_place ? out_.longest() : in_.longest();
    return run_gathering();
  }

  /// MPI_Allgather and MPI_Allgatherv.
  std::optional<int> allgather(bool each) {
    begin(Collective::allgather);
    problem_.in_place = words_.in_place(0);
    if (!use_output(each) || (!problem_.in_place && !use_input())) return std::nullopt;
    problem_.max_block_bytes = out_.longest();
    return run_gathering();
  }

  /// MPI_Scatter and MPI_Scatterv.
  std::optional<int> scatter(bool each) {
    begin(Collective::scatter);
    const std::size_t back = each ? 4 : 3;  // where the arguments of the receiving side begin
    if (!set_root(back + 3)) return std::nullopt;
    problem_.in_place = is_root() && words_.in_place(back);
    if (is_root() && !use_scattered(each)) return std::nullopt;
    if (!problem_.in_place && (!out_.use(words_.pointer(back), words_.handle(back + 2)) ||
                               !out_.add_equal(words_.count(back + 1), 1)))
      return std::nullopt;
    if (!each) problem_.max_block_bytes = problem_.in_place ? in_.longest() : out_.longest();
    std::byte* const from = is_root() ? in_.place(true) : nullptr;
    if (!problem_.in_place) return run(from, out_.place(false), &out_);
    problem_.output = {problem_.input[comm_.self()]};
    return run(from, from);
  }

  /// MPI_Alltoall and MPI_Alltoallv.
  std::optional<int> alltoall(bool each) {
    begin(Collective::alltoall);
    problem_.in_place = words_.in_place(0);
    const std::size_t back = each ? 4 : 3;
    const std::uint32_t n = comm_.ranks();
    if (!out_.use(words_.pointer(back), words_.handle(each ? back + 3 : back + 2)))
      return std::nullopt;
    if (each ? !out_.add_each(words_.integers(back + 1), words_.integers(back + 2), n)
             : !out_.add_equal(words_.count(back + 1), n))
      return std::nullopt;
    if (!problem_.in_place && !use_scattered(each)) return std::nullopt;
    if (!each) problem_.max_block_bytes = out_.longest();
    std::byte* const to = out_.place(problem_.in_place);
    if (!problem_.in_place) return run(in_.place(true), to, &out_);
    problem_.input = problem_.output;
    return run(to, to, &out_);
  }

 private:
  void begin(Collective collective) {
    problem_.collective = collective;
    problem_.ranks = comm_.ranks();
    problem_.rank = comm_.self();
    problem_.root = 0;
    problem_.element_bytes = 1;
    problem_.max_block_bytes.reset();
    problem_.in_place = false;
  }
  bool is_root() const { return problem_.rank == problem_.root; }
  bool set_root(std::size_t word) {
    const int root = words_.integer(word);
    if (root < 0 || static_cast<std::uint32_t>(root) >= comm_.ranks()) return false;
    problem_.root = static_cast<std::uint32_t>(root);
    return true;
  }
  /// The first three arguments: one block.
  bool use_input() {
    return in_.use(words_.pointer(0), words_.handle(2)) && in_.add_equal(words_.count(1), 1);
  }
  /// The first arguments: a block for each rank.
  bool use_scattered(bool each) {
    const std::uint32_t n = comm_.ranks();
    if (!in_.use(words_.pointer(0), words_.handle(each ? 3 : 2))) return false;
    return each ? in_.add_each(words_.integers(1), words_.integers(2), n)
                : in_.add_equal(words_.count(1), n);
  }
  /// From the fourth argument on: a block of each rank.
  bool use_output(bool each) {
    const std::uint32_t n = comm_.ranks();
    if (!out_.use(words_.pointer(3), words_.handle(each ? 6 : 5))) return false;
    return each ? out_.add_each(words_.integers(4), words_.integers(5), n)
                : out_.add_equal(words_.count(4), n);
  }
  std::optional<int> run_gathering() {
    const bool gets = problem_.collective == Collective::allgather || is_root();
    std::byte* const to = gets ? out_.place(problem_.in_place) : nullptr;
    Side* const unloaded = gets ? &out_ : nullptr;
    if (!problem_.in_place) return run(in_.place(true), to, unloaded);
    problem_.input = {problem_.output[comm_.self()]};
    return run(to, to, unloaded);
  }
  static const coll::Arithmetic* arithmetic_in(const ReductionOf& reduction) {
    if (const auto* by_mpi = std::get_if<MpiArithmetic>(&reduction)) return by_mpi;
    return std::get_if<coll::PredefinedArithmetic>(&reduction);
  }

  std::optional<int> run(const std::byte* input, std::byte* output, Side* unloaded = nullptr,
                         const coll::Arithmetic* arithmetic = nullptr) {
    if (in_.is_nowhere() || out_.is_nowhere()) return std::nullopt;
    const auto done = comm_.core->run({.name = name_,
                                       .problem = &problem_,
                                       .plan = comm_.core->plan(problem_),
                                       .input = input,
                                       .output = output,
                                       .arithmetic = arithmetic});
    if (!done && done.error().code == ErrorCode::invalid_argument) return std::nullopt;
    if (!done) return raise_on_comm(comm_.handle, done.error());
    if (unloaded != nullptr) unloaded->unload();
    return constants().success;
  }

  PoolComm& comm_;
  Words words_;
  const char* name_;
  coll::Problem& problem_;
  Side in_, out_;
};

std::optional<int> take(PoolComm& comm, CollectiveCall call, Words words) {
  const auto in_pool = [&](const char* name) { return CallInPool(comm, words, name); };
  switch (call) {
    case CollectiveCall::barrier:
      return in_pool("MPI_Barrier").barrier();
    case CollectiveCall::bcast:
      return in_pool("MPI_Bcast").broadcast(3);
    case CollectiveCall::reduce:
      return in_pool("MPI_Reduce").reduction(Collective::reduce, 5);
    case CollectiveCall::allreduce:
      return in_pool("MPI_Allreduce").reduction(Collective::allreduce, {});
    case CollectiveCall::scan:
      return in_pool("MPI_Scan").reduction(Collective::scan, {});
    case CollectiveCall::exscan:
      return in_pool("MPI_Exscan").reduction(Collective::exscan, {});
    case CollectiveCall::reduce_scatter_block:
      return in_pool("MPI_Reduce_scatter_block").reduction(Collective::reduce_scatter, {});
    case CollectiveCall::reduce_scatter:
      return in_pool("MPI_Reduce_scatter").reduction(Collective::reduce_scatter, {}, true);
    case CollectiveCall::gather:
      return in_pool("MPI_Gather").gather(false);
    case CollectiveCall::gatherv:
      return in_pool("MPI_Gatherv").gather(true);
    case CollectiveCall::scatter:
      return in_pool("MPI_Scatter").scatter(false);
    case CollectiveCall::scatterv:
      return in_pool("MPI_Scatterv").scatter(true);
    case CollectiveCall::allgather:
      return in_pool("MPI_Allgather").allgather(false);
    case CollectiveCall::allgatherv:
      return in_pool("MPI_Allgatherv").allgather(true);
    case CollectiveCall::alltoall:
      return in_pool("MPI_Alltoall").alltoall(false);
    case CollectiveCall::alltoallv:
      return in_pool("MPI_Alltoallv").alltoall(true);
    default:
      return std::nullopt;
  }
}

constexpr CollectiveCall taken_calls[] = {
    CollectiveCall::barrier,        CollectiveCall::bcast,
    CollectiveCall::reduce,         CollectiveCall::allreduce,
    CollectiveCall::scan,           CollectiveCall::exscan,
    CollectiveCall::gather,         CollectiveCall::gatherv,
    CollectiveCall::scatter,        CollectiveCall::scatterv,
    CollectiveCall::allgather,      CollectiveCall::allgatherv,
    CollectiveCall::alltoall,       CollectiveCall::alltoallv,
    CollectiveCall::reduce_scatter, CollectiveCall::reduce_scatter_block};

constexpr std::uint64_t bit_of(CollectiveCall call) {
  return 1ull << static_cast<unsigned>(call);
}

constexpr std::uint64_t bits_of_taken() {
  std::uint64_t bits = 0;
  for (const CollectiveCall call : taken_calls) bits |= bit_of(call);
  return bits;
}

std::string_view name_of(CollectiveCall call) {
  constexpr std::string_view names[] = {
#define PENSTOCK_COLLECTIVE(name, lower, UPPER, n) #lower,
#define PENSTOCK_COUNTED(name, lower, UPPER, n, ...) #lower,
#include "collective_table.inc"
#undef PENSTOCK_COLLECTIVE
#undef PENSTOCK_COUNTED
  };
  return names[static_cast<std::size_t>(call)];
}

std::string all_names() {
  std::string names;
  for (const CollectiveCall call : taken_calls)
    names += (names.empty() ? "" : ", ") + std::string(name_of(call));
  return names;
}

/// PENSTOCK_COLL: "all", "none", or names with commas between; those with a "-" are left out.
std::uint64_t wanted_calls() {
  const std::string text = base::env_text("PENSTOCK_COLL");
  std::uint64_t wanted = 0, unwanted = 0;
  bool only_some = false;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string_view name(text.data() + at, end - at);
    at = end + 1;
    const bool without = name.starts_with('-');
    if (without) name.remove_prefix(1);
    std::uint64_t named = name == "all" ? ~0ull : 0;
    for (const CollectiveCall call : taken_calls) {
      if (name_of(call) == name) named |= bit_of(call);
    }
    only_some = only_some || !without;
    (without ? unwanted : wanted) |= named;
    if (named == 0 && name != "none")
      base::log(base::Level::warn,
                "PENSTOCK_COLL names '{}': all, none, or names such as allreduce,bcast or "
                "-alltoall are needed, of: {}",
                name, all_names());
  }
  return (only_some ? wanted : ~0ull) & ~unwanted;
}

}  // namespace

std::optional<int> collective_in_pool(CollectiveCall call, std::span<const Word> words,
                                      bool large) {
  static const std::uint64_t wanted = wanted_calls();
  // The caller has looked for the MPI before: this is what it found.
  static const bool possible = find_mpi(nullptr).has_value() && pool_is_named();
  if (!possible || wanted == 0) return std::nullopt;
  constexpr std::uint64_t taken = bits_of_taken();
  if ((taken & bit_of(call)) == 0) return std::nullopt;
  PoolComm* const comm = pool_comm(incoming(words.back()));
  if (comm == nullptr || (wanted & bit_of(call)) == 0) return std::nullopt;
  return take(*comm, call, Words(words, large));
}

}  // namespace penstock::mpi
