#include "accelerator/combining.hpp"

#include <algorithm>
#include <cstring>

#include "base/checked.hpp"
#include "schedule/datatype.hpp"

namespace penstock::accelerator {

namespace {

using offload::Command;
using offload::Operation;
using offload::Status;

std::uint64_t bytes_of(const Command& command) {
  return command.elements * coll::bytes_of(static_cast<coll::Datatype>(command.datatype));
}

/// Segments of one operand.
std::uint64_t segments_of(const Command& command) {
  return command.operation == Operation::reduce_scatter ? command.ranks : 1;
}

bool has_operand(const Command& command) {
  if (command.operation == Operation::barrier) return false;
  return command.operation != Operation::broadcast || command.rank == command.root;
}

/// Only operations with one segment.
bool may_be_inlined(Operation operation) {
  return operation != Operation::reduce_scatter && operation != Operation::all_gather;
}

bool is_known(const Command& command) {
  if (command.datatype >= coll::datatype_count) return false;
  if (!reduces(command.operation)) return true;
  if (command.reduction >= coll::operation_count) return false;
  const auto operation = static_cast<coll::Operation>(command.reduction);
  return operation != coll::Operation::premultiplied_sum &&
         coll::supports(operation, static_cast<coll::Datatype>(command.datatype));
}

coll::Reduction reduction_of(const Command& command) {
  return *coll::Reduction::make(static_cast<coll::Datatype>(command.datatype),
                                static_cast<coll::Operation>(command.reduction), command.ranks);
}

}  // namespace

bool reduces(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce ||
         operation == Operation::reduce_scatter;
}

const Command& leading(const std::vector<Command>& commands) {
  if (commands.front().operation != Operation::broadcast) return commands.front();
  const auto root = std::find_if(commands.begin(), commands.end(), has_operand);
  return root == commands.end() ? commands.front() : *root;
}

std::uint64_t result_bytes_of(Operation operation, std::uint64_t segment_bytes,
                              std::uint32_t ranks) {
  const bool each = operation == Operation::reduce_scatter || operation == Operation::all_gather;
  return base::align_up(segment_bytes, coherence::line_bytes) * (each ? ranks : 1);
}

std::uint64_t stride_of(const Command& command) {
  return base::align_up(bytes_of(command), coherence::line_bytes);
}

Refusal Combining::check(const Chunk& chunk) const {
  const std::vector<Command>& commands = *chunk.commands;
  const Command& first = commands.front();
  if (!is_known(first)) return {Status::unsupported, first.rank};
  if (first.operation == Operation::barrier) return {};
  const std::uint64_t element = coll::bytes_of(static_cast<coll::Datatype>(first.datatype));
  for (const Command& command : commands) {
    if (command.operand.bytes % element != 0 || command.elements > chunk.slot_bytes / element ||
        (command.operand.bytes != 0 && !may_be_inlined(command.operation)))
      return {Status::malformed, command.rank};
    if (command.operand.bytes != 0 || !has_operand(command)) continue;
    // Neither stride nor number of segments is large enough to overflow.
    const std::uint64_t bytes = stride_of(command) * segments_of(command);
    const std::uint64_t result =
        result_bytes_of(command.operation, bytes_of(command), command.ranks);
    if (command.elements == 0 || command.source % coherence::line_bytes != 0 ||
        result > chunk.slot_bytes || bytes > chunk.slot_bytes ||
        pool_.at(command.source, bytes) == nullptr)
      return {Status::malformed, command.rank};
  }
  return {};
}

void Combining::copy(std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
  pool_.memory().invalidate(pool_.base() + from, bytes);
  pool_.memory().load_fence();
  move(from, to, bytes);
}

/// Plain copies, in pieces.
void Combining::move(std::uint64_t from, std::uint64_t to, std::uint64_t bytes) {
  const auto& memory = pool_.memory();
  for (std::uint64_t at = 0; at < bytes; at += piece_.size()) {
    const std::uint64_t size = std::min<std::uint64_t>(piece_.size(), bytes - at);
    memory.load_bulk(piece_.data(), pool_.base() + from + at, size);
    memory.publish_bulk(pool_.base() + to + at, piece_.data(), size);
  }
  traffic_.gathered_bytes += bytes;
  traffic_.result_bytes += bytes;
}

void Combining::reduce_segment(const Chunk& chunk, std::uint64_t at, std::uint64_t bytes) {
  const std::vector<Command>& commands = *chunk.commands;
  const auto& memory = pool_.memory();
  const coll::Reduction reduction = reduction_of(commands.front());
  const std::uint64_t element = coll::bytes_of(reduction.type());
  const std::uint64_t most = coll::Reduction::max_elements * element;
  for (std::uint64_t begin = 0; begin < bytes; begin += most) {
    const std::uint64_t size = std::min(most, bytes - begin);
    for (std::size_t rank = 0; rank < commands.size(); ++rank) {
      memory.load_bulk(piece_.data(), pool_.base() + commands[rank].source + at + begin, size);
      rank == 0 ? reduction.first(accumulator_.data(), piece_.data(), size / element)
                : reduction.add(accumulator_.data(), piece_.data(), size / element);
    }
    reduction.finish(piece_.data(), accumulator_.data(), size / element);
    memory.publish_bulk(pool_.base() + chunk.result + at + begin, piece_.data(), size);
  }
  traffic_.gathered_bytes += bytes * commands.size();
  traffic_.reduced_bytes += bytes * commands.size();
  traffic_.result_bytes += bytes;
}

void Combining::reduce(const Chunk& chunk, std::uint64_t segments) {
  const Command& first = chunk.commands->front();
  for (std::uint64_t segment = 0; segment < segments; ++segment)
    reduce_segment(chunk, segment * stride_of(first), bytes_of(first));
}

offload::Inlined Combining::reduce_inlined(const Chunk& chunk) {
  const std::vector<Command>& commands = *chunk.commands;
  const Command& first = leading(commands);
  if (first.operation == Operation::broadcast) return first.operand;
  const coll::Reduction reduction = reduction_of(first);
  const std::size_t elements = first.operand.bytes / coll::bytes_of(reduction.type());
  for (std::size_t rank = 0; rank < commands.size(); ++rank) {
    const std::byte* const operand = commands[rank].operand.data.data();
    rank == 0 ? reduction.first(accumulator_.data(), operand, elements)
              : reduction.add(accumulator_.data(), operand, elements);
  }
  offload::Inlined result{.bytes = first.operand.bytes};
  reduction.finish(result.data.data(), accumulator_.data(), elements);
  traffic_.reduced_bytes += first.operand.bytes * commands.size();
  return result;
}

offload::Inlined Combining::compute(const Chunk& chunk) {
  const std::vector<Command>& commands = *chunk.commands;
  const Command& first = leading(commands);
  if (first.operation == Operation::barrier) return {};
  if (first.operand.bytes != 0) return reduce_inlined(chunk);
  const auto& memory = pool_.memory();
  for (const Command& command : commands)
    if (has_operand(command))
      memory.invalidate(pool_.base() + command.source, stride_of(first) * segments_of(first));
  memory.load_fence();  // the packets were observed before: the operands that they name are fresh
                        // from here on
  if (reduces(first.operation)) {
    reduce(chunk, segments_of(first));
  } else if (first.operation == Operation::broadcast) {
    move(first.source, chunk.result, bytes_of(first));
  } else {
    for (std::uint32_t rank = 0; rank < commands.size(); ++rank)
      move(commands[rank].source, chunk.result + rank * stride_of(first), bytes_of(first));
  }
  return {};
}

}  // namespace penstock::accelerator
