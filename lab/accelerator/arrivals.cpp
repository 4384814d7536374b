#include "accelerator/arrivals.hpp"

#include "base/clock.hpp"
#include "base/format.hpp"

namespace penstock::accelerator {

namespace {

using offload::Packet;

/// A packet whose valid word has arrived is whole, unless a foreign process wrote there. This many
/// more looks keep a store that is still arriving from being taken for damage.
constexpr std::uint32_t looks_at_damage = 64;

}  // namespace

Arrivals::Arrivals(const pool::Pool& pool, const offload::Region& region,
                   std::vector<std::uint32_t> rings, std::uint32_t ranks)
    : pool_(pool),
      region_(region),
      rings_(std::move(rings)),
      ranks_(ranks),
      chunks_(region.shape().window),
      next_(rings_.size()),
      damaged_(rings_.size()) {
  for (Chunk& chunk : chunks_) chunk.of.resize(rings_.size());
}

bool Arrivals::look(std::uint64_t end) {
  const auto& memory = pool_.memory();
  bool some = false;
  looked_.clear();
  for (std::size_t k = 0; k < rings_.size(); ++k)
    if (next_[k] < end) looked_.push_back(k);
  for (const std::size_t k : looked_)
    memory.invalidate(pool_.base() + region_.submission(rings_[k], next_[k]), sizeof(Packet));
  memory.load_fence();
  for (const std::size_t k : looked_) {
    Packet packet;
    memory.load_line(&packet, pool_.base() + region_.submission(rings_[k], next_[k]));
    if (!offload::has_arrived(packet, region_.submission_place(rings_[k], next_[k]))) continue;
    some |= take(k, packet);
  }
  return some;
}

bool Arrivals::take(std::size_t k, const Packet& packet) {
  auto command = offload::read_command(packet, region_.submission_place(rings_[k], next_[k]));
  if (command && command->ranks != ranks_)
    command = fail(ErrorCode::wrong_format, "it states {} ranks, and there are {}", command->ranks,
                   ranks_);
  if (!command) {
    if (++damaged_[k] == looks_at_damage) damage_ = Damage{rings_[k], command.error().message};
    return false;
  }
  damaged_[k] = 0;
  Chunk& chunk = at(next_[k]);
  if (chunk.count == 0) chunk.first_ns = base::now_ns();
  chunk.of[k] = *command;
  ++chunk.count;
  ++next_[k];
  ++taken_;
  return true;
}

void Arrivals::commands(std::uint64_t index, std::vector<offload::Command>& to) const {
  to.clear();
  for (const auto& command : at(index).of)
    if (command) to.push_back(*command);
}

void Arrivals::clear(std::uint64_t index) {
  Chunk& chunk = at(index);
  for (auto& command : chunk.of) command.reset();
  chunk.count = 0;
}

}  // namespace penstock::accelerator
