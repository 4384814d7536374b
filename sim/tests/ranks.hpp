// Ranks that converse through endpoints, in scenarios.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/environment_guard.hpp"
#include "sim/tests/expect_held.hpp"
#include "sim/tests/lasting_copies.hpp"
#include "sim/tests/simulated_pool.hpp"
#include "transport/transport.hpp"

namespace penstock::sim {

using transport::Header;
using transport::Peer;
using transport::ReceiveBuffer;
using transport::SendOp;

/// Length and contents of message `index` from one rank to another.
struct Message {
  std::uint32_t from, to, index;

  std::uint64_t mix(std::uint64_t i) const {
    std::uint64_t z =
        (std::uint64_t{from} << 40 | std::uint64_t{to} << 20 | index) * 0x9e3779b97f4a7c15u + i;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    return z ^ (z >> 27);
  }
  /// Covers every form, and both sides of its limits; messages of 20,000 bytes and more use cells.
  std::uint64_t bytes() const {
    constexpr std::uint64_t sizes[] = {8,  0,    32,   33,     88,     89,     500,   4'000,
                                       56, 9000, 8192, 16'384, 16'385, 20'480, 40'000};
    return sizes[mix(1) % std::size(sizes)];
  }
  std::vector<std::byte> payload() const {
    std::vector<std::byte> data(bytes());
    for (std::size_t i = 0; i < data.size(); ++i)
      data[i] = static_cast<std::byte>(mix(2 + i / 8) >> (i % 8 * 8));
    return data;
  }
  bool notifies_delivered() const { return mix(3) % 3 == 0; }
  bool injected() const { return bytes() <= 4096 && mix(4) % 2 == 0; }
  /// Sent from memory in the pool.
  bool sent_from_pool() const { return !injected() && mix(5) % 2 == 0; }
  /// Received in memory in the pool.
  bool lands_in_pool() const { return bytes() >= 8192 && mix(6) % 4 != 0; }
};

inline constexpr std::uint8_t unlooked_kind = 9;

/// One rank: sends to some peers and receives from some, all at once.
class Rank final : public transport::EndpointCallbacks {
  static constexpr std::uint64_t buffer_bytes = 40'960 + 64;
  static constexpr std::size_t sends_at_once = 4, receive_buffers = 2;

 public:
  /// Memory of the pool that a rank takes for payload, once it needs it.
  static constexpr std::uint64_t bytes_of_buffers =
      (sends_at_once + receive_buffers) * buffer_bytes;
  struct Plan {
    std::uint32_t number;
    std::vector<std::uint32_t> to, from;
    std::uint32_t messages;
    bool scatter = false;  ///< all receive buffers have two pieces
  };
  Rank(World& world, const SimulatedPool& simulated, const Plan& plan)
      : world_(world), plan_(plan) {
    pool_ = simulated.attach(world, {.rank = static_cast<std::int32_t>(plan.number), .job = "sim"});
    arena_ = SimulatedPool::open_arena(world, *pool_);
    open();
  }
  void open() {
    auto opened = transport::Endpoint::open(*arena_, *this, {.job = "sim"});
    world_.require(opened.has_value(), opened ? "" : opened.error().message);
    endpoint_ = std::move(*opened);
  }
  /// Keeps the present endpoint, and goes on with one in a slot that belongs to no process.
  void open_another() {
    earlier_.push_back(std::move(endpoint_));
    open();
  }

  transport::Address address() const { return endpoint_->address(); }
  bool peer_died() const { return !dead_.empty(); }
  const std::string& death() const { return dead_; }
  bool was_refused() const { return refused_; }

  /// `addresses`: of all ranks by number; those of ranks that never opened have generation 0.
  /// `may_be_gone`: whether one of them may have ended, beside the scenario's victim.
  void meet(const std::vector<transport::Address>& addresses,
            const std::function<bool()>& may_be_gone = {}) {
    outgoing_.clear();
    for (const std::uint32_t to : plan_.to) {
      auto peer = endpoint_->resolve(addresses[to]);
      if (!peer) {  // it is gone already: an error, and not a hang
        const bool died = world_.victim() != nullptr && world_.victim()->dead;
        world_.require(died || (may_be_gone && may_be_gone()),
                       "refused although nobody died: " + peer.error().message);
        refused_ = true;
        continue;
      }
      outgoing_.push_back({to, *peer, 0});
    }
    received_.assign(addresses.size(), 0);
  }
  void converse(const std::vector<transport::Address>& addresses) {
    meet(addresses);
    while (!finished()) {
      bool moved = false;
      for (Outgoing& out : outgoing_) moved = send_next(out) || moved;
      moved = endpoint_->progress() != 0 || moved;
      if (!moved) idle();
    }
    // Some deaths are noticed only after a while.
    for (int i = 0; i < 50 && !peer_died(); ++i) {
      if (endpoint_->progress() == 0) idle();
    }
  }
  /// All messages were sent and received, or a rank died.
  bool finished() const {
    if (peer_died() || refused_) return true;
    for (const Outgoing& out : outgoing_) {
      if (out.next < plan_.messages) return false;
    }
    for (const std::uint32_t from : plan_.from) {
      if (received_[from] < plan_.messages) return false;
    }
    return pending_.empty();
  }
  void progress() { endpoint_->progress(); }
  void look_until(const std::function<bool()>& holds) {
    for (; !holds(); world_.sleep(1'000'000)) progress();
  }
  /// Sends to the first peer of the plan; returns true when all of the message is on its way.
  bool send_and_complete() { return send_next(outgoing_[0]); }
  bool all_complete() const { return pending_.empty(); }
  std::uint32_t received_from(std::uint32_t number) const { return received_[number]; }
  bool dead_or_left(const transport::Address& address) {
    return peer_died() || !can_reach(address);
  }
  /// Sends an empty message whose contents are not checked; returns false without credit.
  bool inject_word() {
    const auto sent = endpoint_->try_inject(outgoing_[0].peer, {0, 0, 0, unlooked_kind}, nullptr);
    world_.require(sent.has_value(), sent ? "" : sent.error().message);
    return *sent;
  }
  std::uint32_t words_received() const { return words_received_; }
  std::uint64_t bytes_used() const { return arena_->stats().bytes_used; }
  /// Lines that this thread has read from the device.
  std::uint64_t device_reads() const { return pool_->memory().device_reads(); }
  bool can_reach(const transport::Address& address) {
    return endpoint_->resolve(address).has_value();
  }
  void set_user_word(std::uint64_t user_word) {
    const auto set = endpoint_->set_user_word(user_word);
    world_.require(set.has_value(), set ? "" : set.error().message);
  }
  /// Returns 0 if the peer has closed.
  std::uint64_t user_word_of(const transport::Address& address) {
    return endpoint_->user_word_of(address.slot).value_or(0);
  }
  void close() { endpoint_.reset(); }
  void leave() {
    endpoint_.reset();
    earlier_.clear();
    if (!buffers_.name.empty()) {
      memory_.write_back(buffers_.data, buffers_.bytes);  // no line stays dirty
      memory_.store_fence();
      const auto destroyed = arena_->destroy(buffers_);
      world_.require(destroyed.has_value(), destroyed ? "" : destroyed.error().message);
    }
    arena_.reset();
    pool_.reset();
  }

  ReceiveBuffer on_message(const transport::Message& incoming) override {
    const Header& header = incoming.header;
    if (incoming.payload != nullptr) {
      check(header, static_cast<const std::byte*>(incoming.payload));
      return {};
    }
    if (incoming.may_wait && world_.random() % 4 == 0) return {.match = transport::Match::later};
    auto* receive_buffer = new Arriving(*this, header);
    const Message message{static_cast<std::uint32_t>(header.data), plan_.number,
                          static_cast<std::uint32_t>(header.tag)};
    if (message.lands_in_pool()) receive_buffer->buffer = free_receive_buffer();
    if (receive_buffer->buffer) {
      receive_buffer->at = receive_buffer_at(*receive_buffer->buffer);
      receive_buffers_taken_[*receive_buffer->buffer] = true;
    } else {
      receive_buffer->bytes.resize(header.bytes + 8);
      receive_buffer->at = receive_buffer->bytes.data();
    }
    std::memset(receive_buffer->at, 0x5a, header.bytes + 8);
    receive_buffer->iov[0] = {receive_buffer->at, header.bytes / 2};
    receive_buffer->iov[1] = {receive_buffer->at + header.bytes / 2,
                              header.bytes - header.bytes / 2};
    const bool scattered = plan_.scatter || (header.bytes % 3 == 0 && !receive_buffer->buffer);
    if (!scattered) receive_buffer->iov[0].iov_len = header.bytes;
    return {.iov = receive_buffer->iov,
            .iov_count = scattered ? 2u : 1u,
            .arrival = receive_buffer,
            .match =
                world_.random() % 4 == 0 ? transport::Match::unexpected : transport::Match::posted};
  }
  void on_sent(SendOp* op) override { forget(op); }
  void on_send_failed(SendOp* op, const Error&) override { forget(op); }
  void on_peer_dead(Peer, const std::string& description) override { dead_ = description; }

 private:
  struct Outgoing {
    std::uint32_t to;
    Peer peer;
    std::uint32_t next;
  };
  struct Pending {
    SendOp op;
    std::vector<std::byte> payload;
    std::optional<std::size_t> buffer;  ///< in the pool
  };
  struct Arriving final : transport::Arrival {
    Arriving(Rank& the_rank, const Header& the_header) : rank(the_rank), header(the_header) {}
    void arrived() override {
      const std::unique_ptr<Arriving> gone(this);
      rank.check(header, at);
      rank.world_.require(at[header.bytes] == std::byte{0x5a}, "written past the buffer");
      if (buffer) rank.receive_buffers_taken_[*buffer] = false;
    }
    void failed(const Error&) override {
      const std::unique_ptr<Arriving> gone(this);
      if (buffer) rank.receive_buffers_taken_[*buffer] = false;
    }

    Rank& rank;
    Header header;
    std::byte* at = nullptr;
    std::vector<std::byte> bytes;
    std::optional<std::size_t> buffer;  ///< in the pool, in place of `bytes`
    iovec iov[2];
  };

  void idle() { received_.size() > 32 ? world_.sleep(1'000'000) : world_.yield(); }
  bool send_next(Outgoing& out) {
    if (out.next == plan_.messages || peer_died()) return false;
    const Message message{plan_.number, out.to, out.next};
    const Header header{message.index, plan_.number, message.bytes(), 5};
    if (message.injected()) {
      const auto payload = message.payload();
      const auto sent = endpoint_->try_inject(out.peer, header, payload.data());
      world_.require(sent || sent.error().code == ErrorCode::peer_dead,
                     sent ? "" : sent.error().message);
      if (!sent || !*sent) return false;
    } else {
      if (pending_.size() == sends_at_once) return false;
      auto pending = std::make_unique<Pending>();
      pending->payload = message.payload();
      pending->op.header = header;
      pending->op.iov[0] = {pending->payload.data(), pending->payload.size()};
      if (message.sent_from_pool()) put_in_pool(*pending);
      pending->op.iov_count = 1;
      pending->op.notify_delivered = message.notifies_delivered();
      const auto sent = endpoint_->send(out.peer, &pending->op);
      world_.require(sent || sent.error().code == ErrorCode::peer_dead,
                     sent ? "" : sent.error().message);
      if (!sent) return false;
      if (!*sent) pending_.push_back(std::move(pending));
    }
    ++out.next;
    return true;
  }
  /// Puts the payload into a buffer in the pool, by plain stores as a user does, at an odd place.
  void put_in_pool(Pending& pending) {
    if (buffers_.name.empty()) make_buffers();
    std::size_t number = 0;
    while (std::any_of(pending_.begin(), pending_.end(),
                       [&](const auto& other) { return other->buffer == number; }))
      ++number;
    std::byte* at = buffers_.data + number * buffer_bytes + 8 * (number + 1);
    std::memcpy(at, pending.payload.data(), pending.payload.size());
    pending.op.iov[0].iov_base = at;
    pending.buffer = number;
  }
  std::optional<std::size_t> free_receive_buffer() {
    if (buffers_.name.empty()) make_buffers();
    for (std::size_t i = 0; i < receive_buffers; ++i) {
      if (!receive_buffers_taken_[i]) return i;
    }
    return std::nullopt;
  }
  std::byte* receive_buffer_at(std::size_t number) {
    return buffers_.data + (sends_at_once + number) * buffer_bytes;
  }
  void make_buffers() {
    const auto made = arena_->create(fmt::format("buffers.{}.{}", plan_.number, pool_->token()),
                                     bytes_of_buffers, {.lifetime = arena::Lifetime::process});
    world_.require(made.has_value(), made ? "" : made.error().message);
    buffers_ = *made;
    memory_ = pool_->memory();
    std::vector<std::byte> zeros(buffers_.bytes);
    memory_.observe_bulk(zeros.data(), buffers_.data, buffers_.bytes);
  }
  void forget(SendOp* op) {
    std::erase_if(pending_, [op](const auto& pending) { return &pending->op == op; });
  }
  void check(const Header& header, const std::byte* payload) {
    if (header.kind == unlooked_kind) {
      ++words_received_;
      return;
    }
    const auto from = static_cast<std::uint32_t>(header.data);
    world_.require(from < received_.size(), "a message from nobody");
    const Message wanted{from, plan_.number, received_[from]++};
    world_.require(header.tag == wanted.index && header.kind == 5,
                   fmt::format("message {} in place of {}", header.tag, wanted.index));
    world_.require(header.bytes == wanted.bytes(), "a wrong length");
    const auto expected = wanted.payload();
    const auto wrong = std::mismatch(expected.begin(), expected.end(), payload).first;
    world_.require(wrong == expected.end(),
                   fmt::format("message {} from {} ({} bytes) is wrong from byte {} on", header.tag,
                               from, header.bytes, wrong - expected.begin()));
  }

  World& world_;
  Plan plan_;
  std::unique_ptr<pool::Pool> pool_;
  std::unique_ptr<arena::Arena> arena_;
  std::unique_ptr<transport::Endpoint> endpoint_;
  std::vector<std::unique_ptr<transport::Endpoint>> earlier_;
  std::vector<Outgoing> outgoing_;
  std::vector<std::uint32_t> received_;
  std::uint32_t words_received_ = 0;
  std::vector<std::unique_ptr<Pending>> pending_;
  bool receive_buffers_taken_[receive_buffers] = {};
  arena::Object buffers_;  ///< in the pool, for payload; made when first needed
  coherence::Memory memory_;
  std::string dead_;
  bool refused_ = false;
};

/// With small cells, so that few bytes wrap them, and an endpoint table.
inline std::unique_ptr<SimulatedPool> pool_with_endpoints(const PoolOptions& options = {}) {
  base::EnvironmentItems::add("PENSTOCK_CHANNELS", "cell=4096");
  base::EnvironmentItems::add("PENSTOCK_CHANNELS", "cells=8");
  base::EnvironmentItems::add("PENSTOCK_CHANNELS", "get=1024");
  base::EnvironmentItems::add("PENSTOCK_CHANNELS", "put=8192");
  auto pool = std::make_unique<SimulatedPool>(options);
  pool->once([&](World& world) { Rank(world, *pool, {0, {}, {}, 0}).leave(); });
  return pool;
}

/// Known to all ranks of a job: the address of each.
struct JobState {
  explicit JobState(std::uint32_t ranks) : addresses(ranks), opened(ranks) {}
  void enter(const Rank& rank, std::uint32_t number) {
    addresses[number] = rank.address();
    opened[number] = true;
  }
  /// If several die with their node, any of them may be found first, or one that left because of
  /// it.
  bool names_a_dead(const std::string& text) const {
    if (processes.empty()) return text.find("rank 0 (pid") != std::string::npos;
    if (processes.size() > 2 && text.ends_with(" left")) return true;
    for (std::size_t i = 0; i < processes.size(); ++i) {
      if (processes[i]->dead && text.find(fmt::format("rank {} (pid", i)) != std::string::npos)
        return true;
    }
    return false;
  }
  std::vector<transport::Address> addresses;
  std::vector<bool> opened;
  std::vector<const Process*> processes;  ///< by rank; if empty, only rank 0 may die
  bool changed_hands = false;
};

inline void run_rank(World& world, const SimulatedPool& pool, JobState& job_state,
                     const Rank::Plan& plan) {
  Rank rank(world, pool, plan);
  job_state.enter(rank, plan.number);
  // As by the launcher's exchange of addresses; a rank that died before it never takes part.
  const auto all_there = [&] {
    for (std::size_t i = 0; i < job_state.opened.size(); ++i) {
      if (!job_state.opened[i] && !(world.victim() != nullptr && world.victim()->dead))
        return false;
    }
    return true;
  };
  world.until(all_there);
  rank.converse(job_state.addresses);
  if (rank.peer_died()) {
    const bool died = world.victim() != nullptr && world.victim()->dead;
    world.require(died, "taken for dead: " + rank.death());
    world.require(job_state.names_a_dead(rank.death()), rank.death());
  }
  rank.leave();
}

inline std::vector<std::uint32_t> others(std::uint32_t self, std::uint32_t ranks) {
  std::vector<std::uint32_t> list;
  for (std::uint32_t i = 0; i < ranks; ++i) {
    if (i != self) list.push_back(i);
  }
  return list;
}

/// Every rank sends to every other. Rank r runs on node r % nodes.
inline Scenario conversation(const SimulatedPool& pool, const std::string& name,
                             std::uint32_t ranks, std::uint32_t nodes, std::uint32_t messages) {
  Scenario scenario = pool.scenario(name, nodes);
  scenario.max_steps = 6'000'000;
  scenario.body = [&pool, ranks, nodes, messages](World& world) {
    auto job_state = std::make_shared<JobState>(ranks);
    for (std::uint32_t i = 0; i < ranks; ++i) {
      Process& process = world.spawn(i % nodes, [&world, &pool, job_state, i, ranks, messages] {
        run_rank(world, pool, *job_state, {i, others(i, ranks), others(i, ranks), messages});
      });
      job_state->processes.push_back(&process);
      if (i == 0) world.mark_victim(process);
    }
  };
  return scenario;
}

/// The endpoint table and the tiles of its mailboxes stay.
inline std::size_t objects_besides_the_table(const arena::Arena& arena) {
  const auto objects = arena.list();
  return static_cast<std::size_t>(std::count_if(
      objects.begin(), objects.end(),
      [](const arena::Object& object) { return !object.name.starts_with("penstock.endpoints"); }));
}

/// All space is free, no process is attached, and the pool works as before.
inline void expect_clean(World& world, const SimulatedPool& simulated) {
  // Processes of other nodes are certainly dead after a lease.
  for (int attempt = 0;; ++attempt) {
    auto pool = simulated.attach(world, {.rank = 0, .job = "later"});
    auto arena = SimulatedPool::open_arena(world, *pool);
    const auto left = objects_besides_the_table(*arena);
    if (left == 0) break;
    world.require(attempt < 6, fmt::format("{} objects are left behind", left));
    world.sleep(simulated.lease_ns(world));
  }
}

}  // namespace penstock::sim
