// A leaf: serves the ranks of its hosts, and asks the spine for the result of all. If partial
// results are exact it reduces its ranks' operands and sends one; if the order of the operands
// shows in the bits, the spine reads the operands themselves.
#include "accelerator/served.hpp"
#include "offload/exact.hpp"
#include "schedule/datatype.hpp"

namespace penstock::accelerator {

namespace {

using offload::Command;
using offload::Completion;
using offload::Operation;
using offload::Packet;
using offload::Status;

class Leaf final : public Served {
 public:
  Leaf(std::uint32_t leaf, const pool::Pool& pool, const offload::Region& region,
       std::uint64_t missing_after_ns)
      : Served(pool, region, missing_after_ns), leaf_(leaf), sent_(region.shape().window) {}

  bool poll() override {
    if (failed_ || !knows_its_ranks()) return false;
    if (arrivals_->rings().empty()) return false;  // no rank belongs to this leaf
    bool moved = arrivals_->look(done_ + region_.shape().window);
    give_up_if_damaged(*arrivals_, done_);
    for (; !failed_ && forwarded_ < done_ + region_.shape().window && arrivals_->all(forwarded_);
         moved = true)
      forward();
    while (!failed_ && done_ < forwarded_ && pass_on()) moved = true;
    return moved;
  }
  void check_ranks() override {
    if (!arrivals_) return;
    restore_packets();
    // Chunks that the spine was asked for are answered first: a chunk that is already with the
    // spine needs no further rank.
    if (done_ == forwarded_) Served::check_ranks(*arrivals_, forwarded_);
  }
  Counts counts() const override {
    Counts counts = Served::counts();
    if (arrivals_) counts.commands = arrivals_->taken();
    return counts;
  }

 private:
  std::uint32_t ring() const { return region_.shape().ranks + leaf_; }

  /// Each rank says which leaf it belongs to before it sends anything.
  bool knows_its_ranks() {
    if (arrivals_) return true;
    std::vector<std::uint32_t> own;
    for (std::uint32_t rank = 0; rank < region_.shape().ranks; ++rank) {
      if (!member(rank)) return false;
      if (members_[rank]->leaf == leaf_) own.push_back(rank);
    }
    arrivals_.emplace(pool_, region_, std::move(own), region_.shape().ranks);
    return true;
  }

  /// Sends one packet for all ranks of this leaf.
  void forward() {
    arrivals_->commands(forwarded_, commands_);
    const std::uint64_t partial = region_.source(ring(), forwarded_);
    const Refusal refusal = refusal_of(commands_, partial);
    if (refusal.status != Status::ok) return fail(arrivals_->rings(), done_, refusal);
    Command command = leading(commands_);
    if (reduces(command.operation) && offload::is_exact(command.reduction, command.datatype)) {
      const Completion reduced = compute(commands_, partial);
      command.partial = true;
      command.source = reduced.inlined.bytes == 0 ? partial : 0;
      command.operand = reduced.inlined;
    }
    command.rank = static_cast<std::uint16_t>(ring());
    command.ranks = static_cast<std::uint16_t>(region_.rings());
    const auto& memory = pool_.memory();
    pool_.confirm();
    memory.store_fence();  // the operand is at the device before its packet
    Packet& packet = sent_[forwarded_ % sent_.size()];
    packet = offload::seal(command, region_.submission_place(ring(), forwarded_));
    memory.publish_line(pool_.base() + region_.submission(ring(), forwarded_), &packet);
    memory.store_fence();
    ++forwarded_;
  }

  /// Restores packets that a foreign process has overwritten and that the spine still awaits.
  void restore_packets() {
    const auto& memory = pool_.memory();
    for (std::uint64_t index = done_; !failed_ && index < forwarded_; ++index) {
      std::byte* const at = pool_.base() + region_.submission(ring(), index);
      Packet found;
      memory.observe_line(&found, at);
      if (found.bytes == sent_[index % sent_.size()].bytes) continue;
      pool_.confirm();
      memory.publish_line(at, &sent_[index % sent_.size()]);
      memory.store_fence();
    }
  }

  /// Passes on the spine's answer, if there is one: copies its result to where the ranks read it.
  bool pass_on() {
    const offload::Place place = region_.completion_place(ring(), done_);
    Packet packet;
    pool_.memory().observe_line(&packet, pool_.base() + region_.completion(ring(), done_));
    if (!offload::has_arrived(packet, place)) return false;
    auto completion = offload::read_completion(packet, place);
    if (!completion) {
      fail(arrivals_->rings(), done_, {Status::internal, 0});
      return true;
    }
    if (completion->status != Status::ok) {
      fail(arrivals_->rings(), done_, {completion->status, completion->culprit});
      return true;
    }
    pool_.confirm();
    if (completion->result != 0 && !copy_result(*completion)) {
      fail(arrivals_->rings(), done_, {Status::internal, 0});
      return true;
    }
    answer(arrivals_->rings(), done_, *completion);
    arrivals_->clear(done_++);
    ++counts_.chunks;
    return true;
  }
  /// False if the spine's answer names impossible values.
  bool copy_result(Completion& completion) {
    const std::uint64_t own = region_.result(1 + leaf_, done_);
    if (completion.datatype >= coll::datatype_count ||
        completion.result != region_.result(0, done_))
      return false;
    const std::uint64_t element = coll::bytes_of(static_cast<coll::Datatype>(completion.datatype));
    if (completion.elements > region_.shape().slot_bytes / element) return false;
    const std::uint64_t bytes =
        result_bytes_of(completion.operation, completion.elements * element, region_.shape().ranks);
    if (bytes > region_.shape().slot_bytes) return false;
    combining_.copy(completion.result, own, bytes);
    completion.result = own;
    return true;
  }

  const std::uint32_t leaf_;
  std::optional<Arrivals> arrivals_;  ///< packets of its ranks, once all ranks are known
  std::vector<Packet> sent_;          ///< the window's packets, to restore them
  std::uint64_t forwarded_ = 0;       ///< the index of the next chunk to ask the spine for
  std::uint64_t done_ = 0;            ///< the index of the next chunk to answer
};

}  // namespace

std::unique_ptr<Served> serve_as_leaf(std::uint32_t leaf, const pool::Pool& pool,
                                      const offload::Region& region,
                                      std::uint64_t missing_after_ns) {
  return std::make_unique<Leaf>(leaf, pool, region, missing_after_ns);
}

}  // namespace penstock::accelerator
