#include "collective_arguments.hpp"

#include <algorithm>

#include "coll/fingerprint.hpp"

namespace penstock::mpi {

using coll::Collective;

void Side::clear() {
  blocks_.clear();
  pieces_.clear();
  layout_.reset();
  too_much_.reset();
}

bool Side::use(void* user, Handle type) {
  user_ = static_cast<std::byte*>(user);
  if (type == constants().datatype_null) return false;
  auto layout = packable_layout_of(type);
  if (!layout && layout.error().code == ErrorCode::no_space) too_much_ = layout.error();
  if (!layout) return false;
  layout_ = *std::move(layout);
  return true;
}

bool Side::add_equal(Count elements, std::uint32_t n) {
  if (elements < 0) return false;
  for (std::uint32_t rank = 0; rank < n; ++rank)
    add(static_cast<std::int64_t>(rank) * elements * layout_->extent, elements);
  return true;
}

bool Side::add_each(Numbers counts, Numbers displacements, std::uint32_t n) {
  std::int64_t next = 0;
  for (std::uint32_t rank = 0; rank < n; ++rank) {
    if (counts[rank] < 0) return false;
    const std::int64_t at = displacements ? displacements[rank] : next;
    next += counts[rank];
    add(at * layout_->extent, counts[rank]);
  }
  return true;
}

std::uint64_t Side::longest() const {
  std::uint64_t most = 0;
  for (const Piece& piece : pieces_) most = std::max(most, piece.elements * size());
  return most;
}

std::byte* Side::place() {
  if (layout_->contiguous) return place_as_is();
  std::uint64_t bytes = 0;
  for (const Piece& piece : pieces_) {
    blocks_.push_back({bytes, piece.elements * size()});
    bytes += blocks_.back().bytes;
  }
  if (packed_.size() < bytes) packed_.resize(bytes);
  return packed_.data();
}

std::byte* Side::place_as_is() {
  std::int64_t begin = 0;
  for (const Piece& piece : pieces_) begin = std::min(begin, piece.at);
  for (const Piece& piece : pieces_)
    blocks_.push_back({static_cast<std::uint64_t>(piece.at - begin), piece.elements * size()});
  return user_ + begin;
}

void Side::load() {
  if (layout_->contiguous) return;
  for (std::uint64_t i = 0, at = 0; i < pieces_.size(); at += pieces_[i++].elements * size())
    gather(*layout_, user_ + pieces_[i].at, pieces_[i].elements, packed_.data() + at);
}

void Side::unload() {
  if (layout_->contiguous) return;
  for (std::uint64_t i = 0, at = 0; i < pieces_.size(); at += pieces_[i++].elements * size())
    scatter(*layout_, packed_.data() + at, user_ + pieces_[i].at, pieces_[i].elements);
}

bool CollectiveArguments::read(CollectiveCall call, const Words& words, std::uint32_t ranks,
                               std::uint32_t self) {
  words_ = words;
  problem_.ranks = ranks;
  problem_.rank = self;
  in_.clear();
  out_.clear();
  deferred_.reset();
  return read_arguments(call) && !in_.is_nowhere() && !out_.is_nowhere();
}

bool CollectiveArguments::read_arguments(CollectiveCall call) {
  switch (call) {
    case CollectiveCall::barrier:
      begin(Collective::barrier);
      return place(nullptr, nullptr);
    case CollectiveCall::bcast:
      return broadcast(3);
    case CollectiveCall::reduce:
      return reduction(Collective::reduce, 5);
    case CollectiveCall::allreduce:
      return reduction(Collective::allreduce, {});
    case CollectiveCall::scan:
      return reduction(Collective::scan, {});
    case CollectiveCall::exscan:
      return reduction(Collective::exscan, {});
    case CollectiveCall::reduce_scatter_block:
      return reduction(Collective::reduce_scatter, {});
    case CollectiveCall::reduce_scatter:
      return reduction(Collective::reduce_scatter, {}, true);
    case CollectiveCall::gather:
    case CollectiveCall::gatherv:
      return gather(call == CollectiveCall::gatherv);
    case CollectiveCall::scatter:
    case CollectiveCall::scatterv:
      return scatter(call == CollectiveCall::scatterv);
    case CollectiveCall::allgather:
    case CollectiveCall::allgatherv:
      return allgather(call == CollectiveCall::allgatherv);
    case CollectiveCall::alltoall:
    case CollectiveCall::alltoallv:
      return alltoall(call == CollectiveCall::alltoallv);
    default:
      return false;
  }
}

void CollectiveArguments::begin(Collective collective) {
  problem_.collective = collective;
  problem_.root = 0;
  problem_.element_bytes = 1;
  problem_.max_block_bytes.reset();
  problem_.in_place = false;
  uneven_ = 0;
}

bool CollectiveArguments::set_root(std::size_t word) {
  const int root = words_.integer(word);
  if (root < 0 || static_cast<std::uint32_t>(root) >= problem_.ranks) return false;
  problem_.root = static_cast<std::uint32_t>(root);
  return true;
}

bool CollectiveArguments::place(const std::byte* input, std::byte* output, Side* loaded,
                                Side* unloaded) {
  input_ = input;
  output_ = output;
  loaded_ = loaded;
  unloaded_ = unloaded;
  return true;
}

bool CollectiveArguments::defer_reduction() {
  if (!is_reduced_by_mpi()) return true;
  if (!DeferredReduction::fits(problem_)) return false;
  deferred_.emplace(problem_);
  return true;
}

Handle CollectiveArguments::op_in_use() const {
  return deferred_ && !is_predefined_op(op_) ? op_ : 0;
}

Handle CollectiveArguments::type_in_use() const {
  return deferred_ && in_.shared_layout()->basic != type_ ? type_ : 0;
}

coll::Call CollectiveArguments::call(const char* name) {
  if (deferred_)
    return {.name = name,
            .problem = &deferred_->movement(),
            .input = input_,
            .output = deferred_->operands(),
            .fingerprint = fingerprint_of(reduction_)};
  const coll::Arithmetic* arithmetic = nullptr;
  if (is_reduction()) arithmetic = std::get_if<coll::PredefinedArithmetic>(&reduction_);
  if (is_reduced_by_mpi()) arithmetic = std::get_if<MpiArithmetic>(&reduction_);
  return {
      .name = name,
      .problem = &problem_,
      .input = input_,
      .output = output_,
      .arithmetic = arithmetic,
      .fingerprint = is_reduction() ? fingerprint_of(reduction_) : coll::reduction_word(uneven_)};
}

bool CollectiveArguments::broadcast(std::size_t root) {
  begin(Collective::broadcast);
  if (!set_root(root)) return false;
  Side& side = is_root() ? in_ : out_;
  if (!side.use(words_.pointer(0), words_.handle(2)) || !side.add_equal(words_.count(1), 1))
    return false;
  problem_.max_block_bytes = side.longest();
  std::byte* const data = side.place();
  return place(data, data, is_root() ? &side : nullptr, is_root() ? nullptr : &side);
}

/// `counts`: the call has an array of counts (MPI_Reduce_scatter).
bool CollectiveArguments::reduction(Collective collective, std::optional<std::size_t> root,
                                    bool counts) {
  begin(collective);
  if (root && !set_root(*root)) return false;
  const Handle type = words_.handle(3), op = words_.handle(4);
  const bool gets = !coll::ends_at_root(collective) || is_root();
  const bool scatters = coll::spreads(collective);
  problem_.in_place = gets && words_.in_place(0);
  void* const input = problem_.in_place ? words_.pointer(1) : words_.pointer(0);
  // MPI_Exscan gives rank 0 no result, so its output buffer there may be null.
  const bool gets_nothing =
      gets && coll::operand_count(collective, problem_.rank, problem_.root, problem_.ranks) == 0;
  void* const output = gets_nothing ? input : words_.pointer(1);
  if (!in_.use(input, type) || !out_.use(output, type)) return false;
  // A cached reduction is valid only for predefined handles, which are never freed.
  if (type != type_ || op != op_ || !std::holds_alternative<coll::PredefinedArithmetic>(reduction_))
    reduction_ = reduction_of(type, op, in_.shared_layout(), problem_.ranks);
  type_ = type;
  op_ = op;
  if (std::holds_alternative<std::monostate>(reduction_)) return false;
  const std::uint32_t blocks = scatters ? problem_.ranks : 1;
  const Numbers of_ranks = counts ? words_.numbers(2) : Numbers();
  if (counts ? !in_.add_each(of_ranks, {}, blocks) : !in_.add_equal(words_.count(2), blocks))
    return false;
  if (gets) out_.add_equal(counts ? of_ranks[problem_.rank] : words_.count(2), 1);
  problem_.element_bytes = static_cast<std::uint32_t>(in_.size());
  problem_.max_block_bytes = in_.longest();
  const std::byte* const from = in_.place();
  std::byte* const to = gets ? out_.place() : nullptr;
  problem_.in_place = from == to;  // false if the data were packed
  return place(from, to, &in_, gets && !gets_nothing ? &out_ : nullptr);
}

/// MPI_Gather and MPI_Gatherv.
bool CollectiveArguments::gather(bool each) {
  begin(Collective::gather);
  if (!set_root(each ? 7 : 6)) return false;
  problem_.in_place = is_root() && words_.in_place(0);
  if (is_root() && !use_output(each)) return false;
  if (!problem_.in_place && !use_input()) return false;
  if (!each) problem_.max_block_bytes = is_root() ? out_.longest() : in_.longest();
  return place_gathered();
}

/// MPI_Allgather and MPI_Allgatherv.
bool CollectiveArguments::allgather(bool each) {
  begin(Collective::allgather);
  problem_.in_place = words_.in_place(0);
  if (!use_output(each) || (!problem_.in_place && !use_input())) return false;
  problem_.max_block_bytes = out_.longest();
  return place_gathered();
}

/// MPI_Scatter and MPI_Scatterv.
bool CollectiveArguments::scatter(bool each) {
  begin(Collective::scatter);
  const std::size_t back = each ? 4 : 3;  // index of the receiving side's first argument
  if (!set_root(back + 3)) return false;
  problem_.in_place = is_root() && words_.in_place(back);
  if (is_root() && !use_scattered(each)) return false;
  if (!problem_.in_place && (!out_.use(words_.pointer(back), words_.handle(back + 2)) ||
                             !out_.add_equal(words_.count(back + 1), 1)))
    return false;
  if (!each) problem_.max_block_bytes = is_root() ? in_.longest() : out_.longest();
  std::byte* const from = is_root() ? in_.place() : nullptr;
  Side* const loaded = is_root() ? &in_ : nullptr;
  if (!problem_.in_place) return place(from, out_.place(), loaded, &out_);
  problem_.output = {problem_.input[problem_.rank]};
  return place(from, from, loaded);
}

/// MPI_Alltoall and MPI_Alltoallv.
bool CollectiveArguments::alltoall(bool each) {
  begin(Collective::alltoall);
  problem_.in_place = words_.in_place(0);
  const std::size_t back = each ? 4 : 3;
  const std::uint32_t n = problem_.ranks;
  if (!out_.use(words_.pointer(back), words_.handle(each ? back + 3 : back + 2))) return false;
  if (each ? !out_.add_each(words_.numbers(back + 1), words_.numbers(back + 2), n)
           : !out_.add_equal(words_.count(back + 1), n))
    return false;
  if (!problem_.in_place && !use_scattered(each)) return false;
  if (!each) problem_.max_block_bytes = out_.longest();
  if (!each && !problem_.in_place) note_lengths(in_.longest(), out_.longest());
  std::byte* const to = out_.place();
  if (!problem_.in_place) return place(in_.place(), to, &in_, &out_);
  problem_.input = problem_.output;
  return place(to, to, &out_, &out_);
}

/// Reads the input from the first three arguments: one block.
bool CollectiveArguments::use_input() {
  return in_.use(words_.pointer(0), words_.handle(2)) && in_.add_equal(words_.count(1), 1);
}

/// Reads the input from the first arguments: one block for each rank.
bool CollectiveArguments::use_scattered(bool each) {
  const std::uint32_t n = problem_.ranks;
  if (!in_.use(words_.pointer(0), words_.handle(each ? 3 : 2))) return false;
  return each ? in_.add_each(words_.numbers(1), words_.numbers(2), n)
              : in_.add_equal(words_.count(1), n);
}

/// Reads the output from the fourth argument on: one block of each rank.
bool CollectiveArguments::use_output(bool each) {
  const std::uint32_t n = problem_.ranks;
  if (!out_.use(words_.pointer(3), words_.handle(each ? 6 : 5))) return false;
  return each ? out_.add_each(words_.numbers(4), words_.numbers(5), n)
              : out_.add_equal(words_.count(4), n);
}

bool CollectiveArguments::place_gathered() {
  const bool to_all = !coll::ends_at_root(problem_.collective);
  const bool gets = to_all || is_root();
  std::byte* const to = gets ? out_.place() : nullptr;
  Side* const unloaded = gets ? &out_ : nullptr;
  if (!problem_.in_place) {
    if (to_all) note_lengths(in_.longest(), problem_.output[problem_.rank].bytes);
    return place(in_.place(), to, &in_, unloaded);
  }
  problem_.input = {problem_.output[problem_.rank]};
  return place(to, to, &out_, unloaded);
}

}  // namespace penstock::mpi
