#include "model/network.hpp"

#include <map>

#include "base/format.hpp"
#include "model/machine.hpp"

namespace penstock::model {

namespace {

using coll::Collective;

/// Number of pieces in a chain, which follow each other.
constexpr std::uint32_t pieces = 64;

/// A step of a rank: first it has received `count` messages from a rank, then it sends one.
struct Message {
  std::int64_t from = -1, to = -1;  ///< -1: none
  std::uint64_t count = 0;          ///< messages received so far from `from`
  double bytes = 0;
};
using Messages = std::vector<Message>;

/// Each step sends a message to the next rank; from the second step on, the data that came from the
/// previous rank.
Messages ring(std::uint32_t rank, std::uint32_t ranks, std::uint32_t steps, double bytes) {
  const std::int64_t before = (rank + ranks - 1) % ranks, behind = (rank + 1) % ranks;
  Messages all;
  for (std::uint32_t step = 0; step < steps; ++step)
    all.push_back({step == 0 ? -1 : before, behind, step, bytes});
  all.push_back({before, -1, steps, 0});
  return all;
}

/// From the root along the ranks, or along them to the root.
Messages chain(std::uint32_t place, std::uint32_t ranks, double bytes, bool down) {
  const std::int64_t step = down ? 1 : -1;
  const std::int64_t self = down ? place : ranks - 1 - place;
  Messages all;
  for (std::uint32_t i = 0; i < pieces; ++i)
    all.push_back({place == 0 ? -1 : self - step, place + 1 == ranks ? -1 : self + step, i + 1ull,
                   bytes / pieces});
  return all;
}

/// Sends to rank + 1, rank + 2, ...; then receives from all.
Messages pairs(std::uint32_t rank, std::uint32_t ranks, double bytes) {
  Messages all;
  for (std::uint32_t k = 1; k < ranks; ++k) all.push_back({-1, (rank + k) % ranks, 0, bytes});
  for (std::uint32_t k = 1; k < ranks; ++k) all.push_back({(rank + ranks - k) % ranks, -1, 1, 0});
  return all;
}

Messages rooted(std::uint32_t rank, std::uint32_t ranks, double bytes, bool from_root) {
  Messages all;
  if ((rank == 0) == from_root) {
    for (std::uint32_t k = 1; k < (rank == 0 ? ranks : 2); ++k)
      all.push_back({-1, rank == 0 ? k : 0, 0, bytes});
    return all;
  }
  for (std::uint32_t k = 1; k < (rank == 0 ? ranks : 2); ++k)
    all.push_back({rank == 0 ? k : 0, -1, 1, 0});
  return all;
}

Result<Messages> messages_of(Collective collective, std::uint32_t rank, std::uint32_t ranks,
                             double block) {
  switch (collective) {
    case Collective::allgather:
    case Collective::reduce_scatter:
      return ring(rank, ranks, ranks - 1, block);
    case Collective::allreduce:
      return ring(rank, ranks, 2 * (ranks - 1), block / ranks);
    case Collective::broadcast:
      return chain(rank, ranks, block, true);
    case Collective::reduce:
      return chain(ranks - 1 - rank, ranks, block, false);
    case Collective::alltoall:
      return pairs(rank, ranks, block);
    case Collective::gather:
    case Collective::scatter:
      return rooted(rank, ranks, block, collective == Collective::scatter);
    case Collective::barrier:
      return ring(rank, ranks, ranks - 1, 0);
    default:
      return fail(ErrorCode::invalid_argument, "{} has no model by messages", name_of(collective));
  }
}

struct Ports {
  const Network& network;
  std::uint32_t per_node;
  std::vector<Resource> up, down, local;  ///< by host
  std::map<std::pair<std::int64_t, std::int64_t>, Word> words;

  Word word(Machine& machine, std::int64_t from, std::int64_t to) {
    const auto [place, is_new] = words.try_emplace({from, to}, 0);
    if (is_new) place->second = machine.add_word();
    return place->second;
  }
};

class MessageLane final : public Lane {
 public:
  MessageLane(Ports& ports, std::uint32_t rank, Messages messages)
      : ports_(ports), rank_(rank), messages_(std::move(messages)) {}

  Action next(Machine& machine) override {
    if (sends_) signal(machine);
    while (at_ < messages_.size()) {
      const Message& message = messages_[at_];
      if (!has_arrived_ && message.from >= 0) {
        has_arrived_ = true;
        return {.kind = Action::Kind::await,
                .needs = {{ports_.word(machine, message.from, rank_), message.count}}};
      }
      has_arrived_ = false;
      ++at_;
      if (message.to < 0) continue;
      sends_ = true;
      to_ = message.to;
      return {.kind = Action::Kind::transfer, .bytes = message.bytes, .uses = uses()};
    }
    return {};
  }
  std::string name() const override {
    return fmt::format("rank {}, message {} of {}", rank_, at_, messages_.size());
  }

 private:
  void signal(Machine& machine) {
    sends_ = false;
    machine.signal(ports_.word(machine, rank_, to_), ++sent_[to_],
                   ports_.network.latency_us * 1e-6);
  }
  std::vector<Use> uses() const {
    const auto here = rank_ / ports_.per_node;
    const auto there = static_cast<std::uint32_t>(to_) / ports_.per_node;
    if (here == there) return {{ports_.local[here]}};
    return {{ports_.up[here]}, {ports_.down[there]}};
  }

  Ports& ports_;
  const std::uint32_t rank_;
  const Messages messages_;
  std::size_t at_ = 0;
  bool has_arrived_ = false, sends_ = false;
  std::int64_t to_ = 0;
  std::map<std::int64_t, std::uint64_t> sent_;
};

}  // namespace

bool has_network(Collective collective) {
  return messages_of(collective, 0, 2, 1).has_value();
}

Result<double> network_seconds(const Network& network, Collective collective, std::uint32_t ranks,
                               std::uint32_t per_node, std::uint64_t block) {
  Machine machine;
  Ports ports{network, per_node, {}, {}, {}, {}};
  for (std::uint32_t host = 0; host * per_node < ranks; ++host) {
    ports.up.push_back(machine.fluid().add_resource(network.rate()));
    ports.down.push_back(machine.fluid().add_resource(network.rate()));
    ports.local.push_back(machine.fluid().add_resource(network.local_GBps * 1e9));
  }
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    machine.add_lane(std::make_unique<MessageLane>(
        ports, rank,
        PENSTOCK_TRY(messages_of(collective, rank, ranks, static_cast<double>(block)))));
  return machine.run();
}

}  // namespace penstock::model
