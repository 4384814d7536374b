#include "transport/first_piece.hpp"

#include "base/format.hpp"
#include "pool/members.hpp"

namespace penstock::transport {

bool FirstPiece::is_left() const {
  return !taken_ && owner_.slot == arena_->pool().slot();
}

FirstPiece::Endpoint FirstPiece::own_endpoint() const {
  const pool::Pool& pool = arena_->pool();
  return {owner_.slot, owner_.generation, pool.own_part(), pool.token()};
}

arena::Share FirstPiece::share_of(const Endpoint& endpoint) const {
  return {.name = fmt::format("penstock.tx.{}.{}.first", endpoint.slot, endpoint.generation),
          .owner = endpoint.token,
          .part = endpoint.part};
}

/// Other endpoints of this node that are open and have no memory yet.
std::vector<arena::Share> FirstPiece::others() {
  const auto members = arena_->pool().members().of_this_node();
  std::vector<std::uint32_t> slots;
  for (const auto& member : members) slots.push_back(member.slot);
  const auto lines = table_.load_of_this_node(slots);
  asked_.clear();
  std::vector<arena::Share> shares;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto& line = lines[i];
    if (!line || line->token != members[i].token || !line->wants_memory()) continue;
    if (slots[i] == owner_.slot) continue;
    asked_.push_back(
        {slots[i], static_cast<std::uint32_t>(line->generation), line->part(), line->token});
    shares.push_back(share_of(asked_.back()));
  }
  return shares;
}

/// Endpoints that closed without taking their piece. An endpoint that took it has recorded that
/// before it closed and destroys the piece itself, so a second look must not find that record.
std::set<std::uint64_t> FirstPiece::late() const {
  std::vector<std::uint32_t> slots;
  for (const Endpoint& each : asked_) slots.push_back(each.slot);
  const auto lines = table_.load_of_this_node(slots);
  std::set<std::uint64_t> tokens;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const auto is_open = [generation = asked_[i].generation](const EndpointLine& line) {
      return line.open() && line.generation == generation;
    };
    if (lines[i] && is_open(*lines[i])) continue;
    const auto line = table_.read(slots[i]);
    if (line && !is_open(*line) && line->supplied() != asked_[i].generation)
      tokens.insert(asked_[i].token);
  }
  return tokens;
}

Result<arena::Object> FirstPiece::take(std::uint64_t timeout_ns) {
  const arena::Share own = share_of(own_endpoint());
  const arena::SharedWith with{.others = [this] { return others(); },
                               .late = [this] { return late(); }};
  auto piece = PENSTOCK_TRY(arena_->create_shared(
      own, bytes, {.alignment = channel_alignment, .timeout_ns = timeout_ns}, with));
  taken_ = true;
  table_.set_supplied(owner_);  // after this endpoint has closed, the maker leaves the piece alone
  return piece;
}

/// Runs after the endpoint's line says closed, so a process that makes the piece later sees that.
/// The adopted piece is reclaimed with this process in any case, so the wait for the lock is short.
void FirstPiece::decline() {
  if (!is_left()) return;
  taken_ = true;
  arena_->pool().memory().full_fence();
  const auto piece = arena_->adopt(share_of(own_endpoint()).name);
  if (piece) (void)arena_->destroy(*piece, briefly_ns);
}

}  // namespace penstock::transport
