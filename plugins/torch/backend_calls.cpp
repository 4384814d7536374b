// The collectives of c10d in terms of penstock/collectives.h.
#include <algorithm>
#include <set>

#include "backend.hpp"

namespace penstock::torch {

namespace {

const at::Tensor& only(const Tensors& tensors, const char* what) {
  TORCH_CHECK(tensors.size() == 1, "penstock: ", what, " takes one tensor, and got ",
              tensors.size());
  check_tensor(tensors[0], what);
  return tensors[0];
}

const Tensors& only_list(const std::vector<Tensors>& lists, int size, const char* what) {
  TORCH_CHECK(lists.size() == 1, "penstock: ", what, " takes one list of tensors, and got ",
              lists.size());
  TORCH_CHECK(static_cast<int>(lists[0].size()) == size, "penstock: ", what, " needs a tensor for ",
              "each of ", size, " ranks, and got ", lists[0].size());
  for (const at::Tensor& tensor : lists[0]) check_tensor(tensor, what);
  return lists[0];
}

void check_type(const at::Tensor& tensor, const at::Tensor& other, const char* what) {
  TORCH_CHECK(tensor.scalar_type() == other.scalar_type(), "penstock: ", what, " of ",
              other.scalar_type(), " into ", tensor.scalar_type(), ": both must be of one type");
}

int root_of(std::int64_t rank, int size, const char* what) {
  TORCH_CHECK(rank >= 0 && rank < size, "penstock: invalid root rank ", rank, " of ", what,
              ": 0 to ", size - 1, " there are");
  return static_cast<int>(rank);
}

void check_bytes(std::uint64_t found, std::uint64_t needed, const char* what) {
  TORCH_CHECK(found == needed, "penstock: ", what, " has ", found, " bytes for ", needed);
}

/// The parts of a call that is one collective. A braced list would copy the part.
template <class Part>
std::vector<Part> one(Part&& part) {
  std::vector<Part> parts;
  parts.push_back(std::move(part));
  return parts;
}

}  // namespace

Backend::Part Backend::reduction_in_place(const at::Tensor& tensor,
                                          const c10d::ReduceOp& op) const {
  Part part;
  part.collective = PENSTOCK_ALLREDUCE;
  part.output = Blocks({tensor}, true);
  part.input = part.output;
  part.reduction = reduction_of(tensor, op);
  part.in_place = true;
  part.max_is_known = true;
  part.max_bytes = part.input.longest();
  return part;
}

/// `outputs`: one block for each rank.
Backend::Part Backend::gathering(Blocks outputs, const at::Tensor& input) const {
  Part part;
  part.collective = PENSTOCK_ALLGATHER;
  part.output = std::move(outputs);
  part.input = Blocks({input}, true);
  for (const at::Tensor& output : part.output.tensors()) check_type(output, input, "all_gather");
  const penstock_block_t& own = part.output.list()[static_cast<std::size_t>(rank_)];
  check_bytes(part.input.list()[0].bytes, own.bytes, "the input of all_gather");
  part.max_is_known = true;
  part.max_bytes = part.output.longest();
  // FSDP2's input is a slice of its output.
  if (own.bytes != 0 && part.input.base() == part.output.base() + own.offset) {
    part.input.rebase(part.output.base());
    part.in_place = true;
  }
  return part;
}

/// `inputs`: one block for each rank.
Backend::Part Backend::scattering_sum(const at::Tensor& output, Blocks inputs,
                                      const c10d::ReduceOp& op) const {
  Part part;
  part.collective = PENSTOCK_REDUCE_SCATTER;
  part.output = Blocks({output}, false);
  part.input = std::move(inputs);
  for (const at::Tensor& input : part.input.tensors()) check_type(output, input, "reduce_scatter");
  const penstock_block_t& own = part.input.list()[static_cast<std::size_t>(rank_)];
  check_bytes(part.output.list()[0].bytes, own.bytes, "the output of reduce_scatter");
  part.reduction = reduction_of(output, op);
  part.max_is_known = true;
  part.max_bytes = part.input.longest();
  return part;
}

Pending Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& opts) {
  const at::Tensor& tensor = only(tensors, "broadcast");
  Part part;
  part.collective = PENSTOCK_BROADCAST;
  part.root = root_of(opts.rootRank, size_, "broadcast");
  const bool root = part.root == rank_;
  (root ? part.input : part.output) = Blocks({tensor}, root);
  part.max_is_known = true;
  part.max_bytes = (root ? part.input : part.output).longest();
  return start({c10d::OpType::BROADCAST, "broadcast", opts.timeout, opts.asyncOp},
               one(std::move(part)), tensors);
}

Pending Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& opts) {
  const at::Tensor& tensor = only(tensors, "all_reduce");
  return start({c10d::OpType::ALLREDUCE, "all_reduce", opts.timeout, opts.asyncOp},
               one(reduction_in_place(tensor, opts.reduceOp)), tensors);
}

Pending Backend::allreduce_coalesced(Tensors& tensors,
                                     const c10d::AllreduceCoalescedOptions& opts) {
  std::vector<Part> parts;
  std::set<const void*> seen;
  for (const at::Tensor& tensor : tensors) {
    check_tensor(tensor, "all_reduce_coalesced");
    parts.push_back(reduction_in_place(tensor, opts.reduceOp));
    if (tensor.numel() == 0 || seen.insert(tensor.data_ptr()).second) continue;
    // The list names this tensor twice, so reduce a copy of its original values.
    parts.back().input = Blocks({tensor.clone()}, true);
    parts.back().in_place = false;
  }
  return start(
      {c10d::OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced", opts.timeout, opts.asyncOp},
      std::move(parts), tensors);
}

Pending Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& opts) {
  Part part = reduction_in_place(only(tensors, "reduce"), opts.reduceOp);
  part.collective = PENSTOCK_REDUCE;
  part.root = root_of(opts.rootRank, size_, "reduce");
  if (part.root != rank_) {  // its tensor does not change
    part.output = Blocks();
    part.in_place = false;
  }
  return start({c10d::OpType::REDUCE, "reduce", opts.timeout, opts.asyncOp}, one(std::move(part)),
               tensors);
}

Pending Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                           const c10d::AllgatherOptions& opts) {
  const at::Tensor& input = only(inputs, "all_gather");
  const Tensors& list = only_list(outputs, size_, "all_gather");
  return start({c10d::OpType::ALLGATHER, "all_gather", opts.timeout, opts.asyncOp},
               one(gathering(Blocks(list, false), input)), list);
}

Pending Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                 const c10d::AllgatherOptions& opts) {
  constexpr const char* name = "all_gather_into_tensor";
  check_tensor(output, name);
  check_tensor(input, name);
  return start({c10d::OpType::_ALLGATHER_BASE, name, opts.timeout, opts.asyncOp},
               one(gathering(Blocks::rows(output, false, {}, size_, name), input)), {output});
}

Pending Backend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                     const c10d::AllgatherOptions& opts) {
  std::vector<Part> parts;
  Tensors results;
  // The layout is outputs[rank][i]: c10d passes a list of tensors for each rank.
  TORCH_CHECK(static_cast<int>(outputs.size()) == size_, "penstock: all_gather_coalesced needs a ",
              "list for each of ", size_, " ranks, and got ", outputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensors of_ranks;
    for (const Tensors& list : outputs) {
      TORCH_CHECK(list.size() == inputs.size(), "penstock: all_gather_coalesced of ", inputs.size(),
                  " tensors into lists of ", list.size());
      check_tensor(list[i], "all_gather_coalesced");
      of_ranks.push_back(list[i]);
    }
    check_tensor(inputs[i], "all_gather_coalesced");
    parts.push_back(gathering(Blocks(of_ranks, false), inputs[i]));
  }
  for (const Tensors& list : outputs) results.insert(results.end(), list.begin(), list.end());
  return start(
      {c10d::OpType::ALLGATHER_COALESCED, "all_gather_coalesced", opts.timeout, opts.asyncOp},
      std::move(parts), std::move(results));
}

Pending Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::AllgatherOptions& opts) {
  constexpr const char* name = "all_gather_into_tensor_coalesced";
  TORCH_CHECK(outputs.size() == inputs.size(), "penstock: ", name, " of ", inputs.size(),
              " tensors into ", outputs.size());
  std::vector<Part> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_tensor(outputs[i], name);
    check_tensor(inputs[i], name);
    parts.push_back(gathering(Blocks::rows(outputs[i], false, {}, size_, name), inputs[i]));
  }
  return start({c10d::OpType::COALESCED, name, opts.timeout, opts.asyncOp}, std::move(parts),
               outputs);
}

Pending Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                        const c10d::GatherOptions& opts) {
  const at::Tensor& input = only(inputs, "gather");
  Part part;
  part.collective = PENSTOCK_GATHER;
  part.root = root_of(opts.rootRank, size_, "gather");
  part.input = Blocks({input}, true);
  Tensors results;
  if (part.root == rank_) {
    results = only_list(outputs, size_, "gather");
    part.output = Blocks(results, false);
    check_bytes(part.input.list()[0].bytes,
                part.output.list()[static_cast<std::size_t>(rank_)].bytes, "the input of gather");
  }
  return start({c10d::OpType::GATHER, "gather", opts.timeout, opts.asyncOp}, one(std::move(part)),
               std::move(results));
}

Pending Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ScatterOptions& opts) {
  const at::Tensor& output = only(outputs, "scatter");
  Part part;
  part.collective = PENSTOCK_SCATTER;
  part.root = root_of(opts.rootRank, size_, "scatter");
  part.output = Blocks({output}, false);
  if (part.root == rank_) {
    part.input = Blocks(only_list(inputs, size_, "scatter"), true);
    check_bytes(part.output.list()[0].bytes,
                part.input.list()[static_cast<std::size_t>(rank_)].bytes, "the output of scatter");
  }
  return start({c10d::OpType::SCATTER, "scatter", opts.timeout, opts.asyncOp}, one(std::move(part)),
               outputs);
}

Pending Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                const c10d::ReduceScatterOptions& opts) {
  const at::Tensor& output = only(outputs, "reduce_scatter");
  const Tensors& list = only_list(inputs, size_, "reduce_scatter");
  return start({c10d::OpType::REDUCE_SCATTER, "reduce_scatter", opts.timeout, opts.asyncOp},
               one(scattering_sum(output, Blocks(list, true), opts.reduceOp)), outputs);
}

Pending Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                      const c10d::ReduceScatterOptions& opts) {
  constexpr const char* name = "reduce_scatter_tensor";
  check_tensor(output, name);
  check_tensor(input, name);
  return start(
      {c10d::OpType::_REDUCE_SCATTER_BASE, name, opts.timeout, opts.asyncOp},
      one(scattering_sum(output, Blocks::rows(input, true, {}, size_, name), opts.reduceOp)),
      {output});
}

Pending Backend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                 const c10d::ReduceScatterOptions& opts) {
  constexpr const char* name = "reduce_scatter_tensor_coalesced";
  TORCH_CHECK(outputs.size() == inputs.size(), "penstock: ", name, " of ", inputs.size(),
              " tensors into ", outputs.size());
  std::vector<Part> parts;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_tensor(outputs[i], name);
    check_tensor(inputs[i], name);
    parts.push_back(
        scattering_sum(outputs[i], Blocks::rows(inputs[i], true, {}, size_, name), opts.reduceOp));
  }
  // torch 2.11 has no operation type for this call.
  return start({c10d::OpType::COALESCED, name, opts.timeout, opts.asyncOp}, std::move(parts),
               outputs);
}

Pending Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                               std::vector<std::int64_t>& output_sizes,
                               std::vector<std::int64_t>& input_sizes,
                               const c10d::AllToAllOptions& opts) {
  constexpr const char* name = "all_to_all_single";
  check_tensor(output, name);
  check_tensor(input, name);
  check_type(output, input, name);
  Part part;
  part.collective = PENSTOCK_ALLTOALL;
  part.output = Blocks::rows(output, false, output_sizes, size_, name);
  part.input = Blocks::rows(input, true, input_sizes, size_, name);
  // A rank does not know the sizes of the other ranks' blocks.
  part.max_is_known = false;
  return start({c10d::OpType::ALLTOALL_BASE, name, opts.timeout, opts.asyncOp},
               one(std::move(part)), {output});
}

Pending Backend::alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& opts) {
  Part part;
  part.collective = PENSTOCK_ALLTOALL;
  part.output = Blocks(only_list({outputs}, size_, "all_to_all"), false);
  part.input = Blocks(only_list({inputs}, size_, "all_to_all"), true);
  return start({c10d::OpType::ALLTOALL, "all_to_all", opts.timeout, opts.asyncOp},
               one(std::move(part)), outputs);
}

Pending Backend::barrier(const c10d::BarrierOptions& opts) {
  return start({c10d::OpType::BARRIER, "barrier", opts.timeout, opts.asyncOp}, {Part()}, {});
}

Pending Backend::post(bool is_send, Tensors& tensors, int peer, int tag) {
  check_process();
  const char* const name = is_send ? "send" : "recv";
  const at::Tensor& tensor = only(tensors, name);
  if (!is_send) check_writable(tensor, name);
  TORCH_CHECK(tag >= 0, "penstock: ", name, " with the tag ", tag, ": tags are not negative");
  auto type = is_send ? c10d::OpType::SEND : c10d::OpType::RECV;
  if (peer == Mail::anybody) type = c10d::OpType::RECVANYSOURCE;
  // Messages of GPU tensors pass through host memory, so wait for pending work on the tensor first.
  if (tensor.is_cuda()) {
    const c10::impl::VirtualGuardImpl devices(tensor.device().type());
    devices.synchronizeStream(devices.getStream(tensor.device()));
  }
  const How how{type, peer == Mail::anybody ? "recvAnySource" : name, limit()};
  auto work = make_work(how, {}, sequence_.load(), tensors);
  if (peer != Mail::anybody) work->outcome()->set_source(peer);
  mail()->post(
      {is_send, peer, static_cast<std::uint64_t>(tag), tensor, work->outcome(), how.timeout});
  return work;
}

Pending Backend::send(Tensors& tensors, int to, int tag) {
  return post(true, tensors, to, tag);
}

Pending Backend::recv(Tensors& tensors, int from, int tag) {
  return post(false, tensors, from, tag);
}

Pending Backend::recvAnysource(Tensors& tensors, int tag) {
  return post(false, tensors, Mail::anybody, tag);
}

}  // namespace penstock::torch
