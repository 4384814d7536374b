// Two endpoints converse as ranks do, and a vandal writes into the lines between them. Until it
// does, every message must arrive once, in order and unchanged; afterwards every failure must be an
// error.
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "fuzz/corruptor.hpp"
#include "fuzz/endpoint_world.hpp"
#include "transport/transport.hpp"

namespace penstock::fuzz {
namespace {

using namespace penstock::transport;

const Options options{.job = "fuzz"};
constexpr int max_steps = 64;
constexpr std::uint64_t max_queued = 16;
constexpr std::uint64_t max_bytes = 40'000;  // more than all cells of a channel hold

struct World : EndpointWorld {
  explicit World(coherence::Mode mode) : EndpointWorld(mode) { frozen.freeze(); }
};

std::byte byte_of(std::uint64_t tag, std::uint64_t at) {
  return static_cast<std::byte>(tag * 31 + at * 7 + (at >> 8));
}

std::vector<std::byte> payload_of(std::uint64_t tag, std::uint64_t bytes) {
  std::vector<std::byte> payload(bytes);
  for (std::uint64_t i = 0; i < bytes; ++i) payload[i] = byte_of(tag, i);
  return payload;
}

struct Promise {
  std::uint64_t tag, bytes;
};

/// Messages in flight, separately for each direction. `kept` becomes false when the vandal writes
/// or a side leaves.
struct Conversation {
  std::deque<Promise> to[2];
  bool kept = true;
};

/// One of the two sides, with its sends and its next receives.
class Side final : public EndpointCallbacks {
 public:
  Side(World& world, Conversation& conversation, Input& input, int index)
      : world_(world), conversation_(conversation), input_(input), index_(index) {
    open();
  }

  Address address() const { return endpoint_->address(); }
  void meet(const Address& other) {
    const auto peer = endpoint_->resolve(other);
    if (!peer) return told(peer.error());
    peer_ = *peer;
  }
  void leave_and_come_again() {
    conversation_.kept = false;
    endpoint_.reset();
    begun_.clear();
    sending_.clear();
    open();
  }

  void send() {
    if (sending_.size() >= max_queued) return;
    auto outgoing = std::make_unique<Outgoing>();
    const std::uint64_t bytes = choose_bytes();
    outgoing->bytes = payload_of(next_tag_, bytes);
    SendOp& op = outgoing->op;
    op.header = {.tag = next_tag_, .data = ~next_tag_, .bytes = bytes, .kind = 1};
    const std::uint64_t first = bytes / (1 + input_.below(3));
    op.iov[0] = {outgoing->bytes.data(), first};
    op.iov[1] = {outgoing->bytes.data() + first, bytes - first};
    op.iov_count = first == bytes ? 1 : 2;
    op.notify_delivered = input_.flag();
    const auto sent = endpoint_->send(peer_, &op);
    if (!sent) return told(sent.error());
    promise(bytes);
    if (!*sent) sending_.emplace(&op, std::move(outgoing));
  }

  void inject() {
    const std::uint64_t bytes = std::min<std::uint64_t>(choose_bytes(), limits_.inject_bytes);
    const std::vector<std::byte> payload = payload_of(next_tag_, bytes);
    const Header header{.tag = next_tag_, .data = ~next_tag_, .bytes = bytes, .kind = 1};
    const auto injected = endpoint_->try_inject(peer_, header, payload.data());
    if (!injected) return told(injected.error());
    if (*injected) promise(bytes);
  }

  void cancel() {
    if (sending_.empty()) return;
    auto chosen =
        std::next(sending_.begin(), static_cast<std::ptrdiff_t>(input_.below(sending_.size())));
    if (!endpoint_->cancel(peer_, chosen->first)) return;
    auto& promised = conversation_.to[1 - index_];
    std::erase_if(promised,
                  [&](const Promise& one) { return one.tag == chosen->first->header.tag; });
    sending_.erase(chosen);
  }

  void poll() { endpoint_->progress(); }
  bool at_rest() const { return sending_.empty() && begun_.empty() && endpoint_->drained(); }

  ReceiveBuffer on_message(const Message& message) override {
    const Header& header = message.header;
    take_promise(message.from, header);
    if (message.payload != nullptr) {
      expect(header.bytes <= inline_bytes);
      std::vector<std::byte> copy(header.bytes);
      if (!copy.empty()) std::memcpy(copy.data(), message.payload, copy.size());
      check(header, copy.data(), copy.size());
      return {};
    }
    expect(header.bytes <= max_message_bytes);
    auto begun = std::make_unique<Begun>(*this, header);
    std::uint64_t room = std::min(header.bytes, max_bytes);
    if (input_.below(4) == 3) room = input_.number<std::uint16_t>() % (room + 1);
    const std::uint64_t pieces = 1 + input_.below(3);
    for (std::uint64_t i = 0; i < pieces; ++i) {
      const std::uint64_t bytes = i + 1 == pieces ? room : room / 2;
      begun->buffers.emplace_back(bytes);
      begun->iov.push_back({begun->buffers.back().data(), bytes});
      room -= bytes;
    }
    const ReceiveBuffer receive_buffer{.iov = begun->iov.data(),
                                       .iov_count = static_cast<std::uint32_t>(pieces),
                                       .arrival = begun.get()};
    begun_.emplace(begun.get(), std::move(begun));
    return receive_buffer;
  }

  void on_sent(SendOp* op) override { expect(sending_.erase(op) == 1); }
  void on_send_failed(SendOp* op, const Error& error) override {
    told(error);
    expect(sending_.erase(op) == 1);
  }
  void on_peer_dead(Peer, const std::string& text) override {
    told(Error{ErrorCode::peer_dead, text});
  }

 private:
  struct Outgoing {
    SendOp op;
    std::vector<std::byte> bytes;
  };
  struct Begun final : Arrival {
    Begun(Side& the_side, const Header& the_header) : side(the_side), header(the_header) {}
    void arrived() override {
      std::vector<std::byte> got;
      for (const auto& buffer : buffers) got.insert(got.end(), buffer.begin(), buffer.end());
      side.check(header, got.data(), got.size());
      side.forget(this);
    }
    void failed(const Error& error) override {
      side.told(error);
      side.forget(this);
    }

    Side& side;
    Header header;
    std::vector<std::vector<std::byte>> buffers;
    std::vector<iovec> iov;
  };
  void forget(Begun* begun) { expect(begun_.erase(begun) == 1); }

  void open() {
    auto opened = Endpoint::open(*world_.arena, *this, options);
    if (!opened) {  // false entries in the table can keep others out
      told(opened.error());
      world_.frozen.reset();
      opened = Endpoint::open(*world_.arena, *this, options);
      need(opened);
    }
    endpoint_ = std::move(*opened);
    limits_ = endpoint_->limits();
  }

  /// An error is only right after a corruption.
  void told(const Error& error) const { expect(!conversation_.kept && is_told(error)); }

  std::uint64_t choose_bytes() {
    switch (input_.below(4)) {
      case 0:
        return input_.below(inline_bytes + 2);
      case 1:
        return input_.below(700);
      case 2:
        return limits_.inject_bytes - 2 + input_.below(5);
      default:
        return input_.number<std::uint16_t>() % max_bytes;
    }
  }

  void promise(std::uint64_t bytes) {
    conversation_.to[1 - index_].push_back({next_tag_++, bytes});
  }

  void take_promise(Peer from, const Header& header) {
    if (!conversation_.kept) return;
    auto& promised = conversation_.to[index_];
    expect(from == peer_ && !promised.empty() && header.kind == 1);
    expect(header.tag == promised.front().tag && header.bytes == promised.front().bytes);
    expect(header.data == ~header.tag);
    promised.pop_front();
  }

  void check(const Header& header, const std::byte* payload, std::uint64_t bytes) const {
    if (!conversation_.kept) return;
    for (std::uint64_t i = 0; i < bytes; ++i) expect(payload[i] == byte_of(header.tag, i));
  }

  World& world_;
  Conversation& conversation_;
  Input& input_;
  int index_;
  Limits limits_{};
  Peer peer_ = 0;
  std::uint64_t next_tag_ = 1;
  std::map<SendOp*, std::unique_ptr<Outgoing>> sending_;
  std::map<void*, std::unique_ptr<Begun>> begun_;
  std::unique_ptr<Endpoint> endpoint_;
};

void step(Side (&sides)[2], Conversation& conversation, Corruptor& corruptor, Input& input) {
  const std::uint64_t who = input.below(2);
  Side& side = sides[who];
  switch (input.below(8)) {
    case 0:
    case 1:
      return side.send();
    case 2:
      return side.inject();
    case 3:
    case 4:
      for (auto polls = 1 + input.below(16); polls > 0; --polls) side.poll();
      return;
    case 5:
      conversation.kept = false;
      return corruptor.corrupt(sides[who].address().slot, sides[1 - who].address().slot);
    case 6:
      if (input.flag()) return side.cancel();
      pass_time(1'000'000ull << input.below(6));
      for (int polls = 0; polls < 600; ++polls)
        side.poll();  // enough polls to look at the clock
                      // once
      return;
    default:
      if (input.below(4) != 3) return side.poll();
      side.leave_and_come_again();
      side.meet(sides[1 - who].address());
      sides[1 - who].meet(side.address());
  }
}

/// Every message arrives, however late the other side reads it.
void finish(Side (&sides)[2], const Conversation& conversation) {
  constexpr int max_polls = 5'000;
  for (int polls = 0; polls < max_polls; ++polls) {
    if (sides[0].at_rest() && sides[1].at_rest()) break;
    for (Side& side : sides) side.poll();
    if (!conversation.kept && polls > 200) return;
  }
  if (!conversation.kept) return;
  expect(sides[0].at_rest() && sides[1].at_rest());
  expect(conversation.to[0].empty() && conversation.to[1].empty());
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // so that messages of a few kilobytes take several cells
  return ::setenv("PENSTOCK_CHANNELS", "cell=4096", 1);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock::fuzz;
  Input input(data, size);
  World& world = fresh<World>(choose_mode(input));
  Conversation conversation;
  {
    Side sides[2] = {{world, conversation, input, 0}, {world, conversation, input, 1}};
    sides[0].meet(sides[1].address());
    sides[1].meet(sides[0].address());
    Corruptor corruptor(world, input);
    for (int steps = 0; steps < max_steps && !input.empty(); ++steps)
      step(sides, conversation, corruptor, input);
    finish(sides, conversation);
  }
  return 0;
}
