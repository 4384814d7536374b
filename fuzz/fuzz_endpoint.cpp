// Everything around an endpoint is hostile: mailbox words, the table of endpoints, channels and
// credits. Arriving messages go through the provider's matcher, as in an MPI job.
#include <array>
#include <map>
#include <set>
#include <vector>

#include "fuzz/endpoint_world.hpp"
#include "fuzz/forged_channel.hpp"
#include "messages/matcher.hpp"

namespace penstock::fuzz {
namespace {

using namespace penstock::transport;

constexpr std::uint64_t hostile_bytes = 256 << 10;
constexpr std::uint32_t senders = 4;
const Options options{.job = "fuzz"};

/// Posts receives into guarded buffers, and checks their outcomes.
class Receiver final : public EndpointCallbacks,
                       public messages::MatchReports,
                       public messages::MatchEvents {
 public:
  explicit Receiver(Input& input) : input_(input), matcher_(*this, *this) {}

  ReceiveBuffer on_message(const Message& message) override {
    check_sender(message.from);
    constexpr std::uint8_t of_service = 4;  // in this target, the kind of messages that were
                                            // announced
    return (message.header.kind & of_service) != 0 ? matcher_.payload(message)
                                                   : matcher_.message(message);
  }
  void on_sent(SendOp*) override {}
  void on_send_failed(SendOp*, const Error& error) override { expect(is_told(error)); }
  void on_peer_dead(Peer peer, const std::string& text) override {
    expect(!text.empty());
    dead_[peer] = generation_of(peer);
    matcher_.peer_dead(peer, 1, 1, 0);
  }
  Cause cause_of(const Error& error) override {
    expect(is_told(error));
    return {1, 0};
  }

  void on_received(const messages::Received& received) override { check(received); }
  void on_receive_failure(const messages::ReceiveFailure& failure) override { check(failure.what); }

  void set_victim(const Endpoint* victim) { victim_ = victim; }
  /// From now on the receiver knows the resolved address, whichever peer sends.
  void resolved(Peer peer) { resolved_.insert(peer); }

  void act() {
    messages::ReceiveRequest request;
    request.tagged = input_.flag();
    request.source =
        input_.flag() ? messages::any_source : static_cast<Peer>(input_.below(senders));
    request.ignore = input_.flag() ? ~0ull : 0;
    request.tag = input_.byte();
    request.context = &contexts_[input_.below(contexts_.size())];
    switch (input_.below(6)) {
      case 0:
        (void)matcher_.cancel(request.context);
        return;
      case 1:
        (void)matcher_.peek(request, static_cast<messages::Matcher::Peek>(input_.below(3)));
        return;
      case 2:
        (void)matcher_.discard_claimed(request);
        return;
      default:
        break;
    }
    request.multi = input_.below(4) == 3;
    request.iov_count = request.multi ? 1 : static_cast<std::uint32_t>(input_.below(4));
    for (std::uint32_t i = 0; i < request.iov_count; ++i) {
      buffers_.emplace_back(input_.number<std::uint16_t>() % 3000);
      request.iov[i] = {buffers_.back().data(), buffers_.back().size()};
    }
    if (request.multi || input_.below(4) != 3) {
      (void)matcher_.post(request);
    } else {
      (void)matcher_.receive_claimed(request);
    }
  }

 private:
  void check(const messages::Received& received) { expect(received.bytes <= max_message_bytes); }

  std::uint32_t generation_of(Peer peer) const {
    return victim_ != nullptr ? victim_->address_of(peer).generation : 0;
  }
  /// After a peer was reported dead, messages may only come from a later endpoint in its slot.
  void check_sender(Peer from) const {
    const auto dead = dead_.find(from);
    if (dead == dead_.end() || resolved_.count(from) != 0) return;
    expect(dead->second != generation_of(from));
  }

  Input& input_;
  const Endpoint* victim_ = nullptr;
  std::map<Peer, std::uint32_t> dead_;
  std::set<Peer> resolved_;
  std::array<int, 4> contexts_{};
  std::vector<std::vector<std::byte>> buffers_;
  messages::Matcher matcher_;
};

class Silent final : public EndpointCallbacks {
 public:
  ReceiveBuffer on_message(const Message&) override { return {}; }
  void on_sent(SendOp*) override {}
  void on_send_failed(SendOp*, const Error&) override {}
  void on_peer_dead(Peer, const std::string&) override {}
};

/// A pool with an arena, memory for the hostile peers, and endpoint 0, which is one of them.
struct World : EndpointWorld {
  explicit World(coherence::Mode mode)
      : EndpointWorld(mode),
        hostile(make("hostile", hostile_bytes, {.alignment = channel_alignment})) {
    auto first = Endpoint::open(*arena, silent, options);
    need(first);
    peer = first->release();  // it stays open for ever, as a hostile peer's may
    address = peer->address();
    frozen.freeze();
  }
  Silent silent;
  arena::Object hostile;
  Endpoint* peer = nullptr;
  Address address{};
};

/// They live as long as their endpoint; the memory that they send may be freed before.
using Operations = std::vector<std::unique_ptr<SendOp>>;

class Attack {
 public:
  Attack(World& world, Endpoint& victim, Receiver& receiver, Operations& operations, Input& input)
      : world_(world),
        victim_(victim),
        receiver_(receiver),
        operations_(operations),
        input_(input) {
    for (std::uint32_t i = 0; i < senders; ++i) open_channel(i, i);
  }

  void step() {
    const auto who = static_cast<std::uint32_t>(input_.below(senders));
    switch (input_.below(12)) {
      case 0:
      case 1:
        return channels_[who].write_message(input_);
      case 2:
        return channels_[who].write_flags(input_);
      case 3:
        return channels_[who].write_word(input_);
      case 4:
        return open_channel(who, input_.below(8));
      case 5:
        return ring(who);
      case 6:
        return write_table();
      case 7:
        return receiver_.act();
      case 8:
        return send();
      case 9:
        return write_credits();
      case 10:
        return pass_time(input_.number<std::uint16_t>() * 100'000ull);
      default:
        for (auto polls = polls_of(input_.below(8)); polls > 0; --polls) victim_.progress();
    }
  }

 private:
  /// Mostly few polls: checks that run only now and then need hundreds.
  static std::uint64_t polls_of(std::uint64_t chosen) {
    return chosen < 6 ? 1 + 3 * chosen : 300 * (chosen - 5);
  }

  void open_channel(std::uint32_t who, std::uint64_t place) {
    const Address& self = victim_.address();
    const std::uint64_t offset = world_.hostile.offset + place * (16 << 10);
    channels_[who] = ForgedChannel(world_.frozen.base(), world_.frozen.bytes(), offset,
                                   world_.hostile.offset + (128 << 10), (1ull << 62) + place);
    channels_[who].write_header({.job = self.job,
                                 .source = who + (who >= self.slot ? 1u : 0u),
                                 .source_generation = 1,
                                 .target = self.slot,
                                 .target_generation = self.generation},
                                input_);
    ring(who);
  }

  void ring(std::uint32_t who) {
    const Address& self = victim_.address();
    const std::uint32_t sender = who + (who >= self.slot ? 1u : 0u);
    std::uint64_t word = MailboxWord::pack(channels_[who].offset(), input_.byte());
    if (input_.below(8) == 7) word = input_.lie(world_.frozen.bytes()) << (input_.flag() ? 20 : 0);
    const auto slot = input_.below(16) == 15
                          ? static_cast<std::uint32_t>(input_.below(world_.table.count()))
                          : sender;
    std::byte* const at =
        input_.flag() ? world_.word(self.slot, slot) : world_.make_word(self.slot, slot);
    if (at != nullptr) std::memcpy(at, &word, 8);
  }

  /// Overwrites the entries that lead to the tiles of the victim's mailbox, or of a peer's.
  void write_box() {
    const std::uint32_t owner = input_.flag() ? victim_.address().slot : world_.address.slot;
    const std::uint32_t group =
        static_cast<std::uint32_t>(input_.below(world_.table.tiles().layout().groups()));
    const auto lines = static_cast<std::uint32_t>(input_.byte());
    std::uint64_t entry = input_.lie(world_.frozen.bytes());
    if (input_.flag())
      entry = TileEntry::sealed(entry & TileEntry::offset_bits, lines, world_.table.key(), owner,
                                group);
    std::byte* const box = world_.box(owner);
    std::memcpy(box + TableLayout::directory + 8 * group, &entry, 8);
    if (input_.flag()) std::memcpy(box + TableLayout::latest, &entry, 8);
  }

  void write_table() {
    const auto slot = static_cast<std::uint32_t>(input_.below(senders + 2));
    if (slot == senders + 1) return write_box();
    std::byte* at = world_.line(slot);
    EndpointLine line;
    std::memcpy(&line, at, sizeof line);
    if (input_.flag()) {
      line.generation = 1;
      line.token = world_.frozen.pool().token();
      line.state = EndpointLine::pack(1, EndpointState::open);
    }
    const std::uint64_t lie = input_.lie(world_.table.count());
    if (input_.flag())
      std::memcpy(reinterpret_cast<std::byte*>(&line) + 4 * input_.below(15), &lie, 4);
    line.checksum = checksum_of(line, world_.table.key(), slot);
    std::memcpy(at, &line, sizeof line);
  }

  void send() {
    Address to = world_.address;
    if (input_.below(8) == 7) {
      const std::uint32_t lie = input_.number<std::uint32_t>();
      std::memcpy(reinterpret_cast<std::byte*>(&to) + 4 * input_.below(6), &lie, 4);
    }
    const auto peer = victim_.resolve(to);
    if (!peer) return expect(is_told(peer.error()));
    receiver_.resolved(*peer);
    SendOp& op = *operations_.emplace_back(std::make_unique<SendOp>());
    op.header.bytes = input_.number<std::uint32_t>() % buffer_.size();
    op.iov[0] = {buffer_.data(), op.header.bytes};
    op.iov_count = 1;
    op.notify_delivered = input_.flag();
    const auto sent = victim_.send(*peer, &op);
    if (!sent) expect(is_told(sent.error()));
  }

  void write_credits() {
    std::uint64_t word;
    const std::byte* const place = world_.word(world_.address.slot, victim_.address().slot);
    if (place == nullptr) return;
    std::memcpy(&word, place, 8);
    const std::uint64_t offset = MailboxWord::offset(word);
    if (word == 0 || offset + 4096 > world_.frozen.bytes()) return;
    std::byte* at = world_.frozen.base() + offset;
    ChannelHeader header;
    std::memcpy(&header, at, sizeof header);
    const std::uint64_t words[] = {header.nonce + input_.lie(1024), header.nonce + input_.lie(8)};
    std::memcpy(at + transport::ChannelLayout::credits, words, sizeof words);
  }

  World& world_;
  Endpoint& victim_;
  Receiver& receiver_;
  Operations& operations_;
  Input& input_;
  std::vector<ForgedChannel> channels_{senders, ForgedChannel(nullptr, 0, 0, 0, 0)};
  std::vector<std::byte> buffer_{std::vector<std::byte>(200'000)};
};

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  using namespace penstock::fuzz;
  Input input(data, size);
  World& world = fresh<World>(choose_mode(input));
  Receiver receiver(input);
  Operations operations;
  auto victim = transport::Endpoint::open(*world.arena, receiver, options);
  need(victim);
  receiver.set_victim(victim->get());
  {
    Attack attack(world, **victim, receiver, operations, input);
    for (int steps = 0; steps < 48 && !input.empty(); ++steps) attack.step();
    (void)(*victim)->drained();
    (*victim)->progress();
  }
  return 0;
}
