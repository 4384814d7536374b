// A receiver that writes arbitrary bytes into credits, flags and mailbox, against the sending end.
#include <vector>

#include "fuzz/buffer_callbacks.hpp"
#include "fuzz/frozen_arena.hpp"
#include "transport/tx_channel.hpp"

namespace penstock::fuzz {
namespace {

using namespace penstock::transport;

/// Other processes' objects lie before and behind the memory that the sender takes.
struct World : FrozenArena {
  explicit World(coherence::Mode mode)
      : FrozenArena(mode), table(*transport::EndpointTable::open(*arena)) {
    before = make("before", 8192);
    after = make("after", 8192);
    frozen.freeze();
  }
  bool untouched(const arena::Object& object) const {
    return std::all_of(object.data, object.data + object.bytes,
                       [](std::byte b) { return b == std::byte{0}; });
  }
  transport::EndpointTable table;
  arena::Object before, after;
};

struct Operation {
  SendOp op;
  std::vector<std::byte> buffer;
};

class Sender {
 public:
  Sender(World& world, TxContext& context, TxChannel& channel, const std::uint64_t& word,
         Input& input)
      : world_(world),
        context_(context),
        channel_(channel),
        word_(word),
        input_(input),
        callbacks_(input) {}

  void step() {
    switch (input_.below(6)) {
      case 0:
        return inject();
      case 1:
        return send();
      case 2:
        return write_credits();
      case 3:
        if (!operations_.empty()) {
          Operation& chosen = *operations_[input_.below(operations_.size())];
          if (chosen.op.header.data == 0 && channel_.cancel(&chosen.op)) chosen.op.header.data = 1;
        }
        return;
      case 4:
        (void)channel_.consumed();
        return;
      default:
        channel_.advance(callbacks_);
    }
  }

  void end() {
    channel_.fail_all(callbacks_, Error{ErrorCode::peer_dead, "the receiver has died"});
    expect(!channel_.waiting());
    channel_.abandon();
  }

 private:
  void inject() {
    Header header{.tag = 1, .data = 2, .bytes = input_.number<std::uint16_t>()};
    if (header.bytes > context_.settings.inject_bytes) header.bytes = 32;
    const std::vector<std::byte> payload(header.bytes);
    const auto injected = channel_.inject(header, payload.data());
    if (!injected) expect(is_told(injected.error()));
  }

  void send() {
    auto operation = std::make_unique<Operation>();
    operation->buffer.resize(input_.number<std::uint32_t>() % 300'000);
    SendOp& op = operation->op;
    op.header.bytes = operation->buffer.size();
    const std::uint64_t first = op.header.bytes / (1 + input_.below(3));
    op.iov[0] = {operation->buffer.data(), first};
    op.iov[1] = {operation->buffer.data() + first, op.header.bytes - first};
    op.iov_count = first == op.header.bytes ? 1 : 2;
    if (op.iov_count == 1 && input_.flag())  // a user's buffer in the pool
      op.iov[0].iov_base = world_.frozen.base() + input_.number<std::uint16_t>();
    op.notify_delivered = input_.flag();
    const auto sent = channel_.send(&op);
    if (!sent) return expect(is_told(sent.error()));
    if (!*sent) operations_.push_back(std::move(operation));
  }

  /// Finds the channel's place by the mailbox word, as the receiver does.
  void write_credits() {
    if (word_ == 0) return;
    std::byte* at = world_.frozen.base() + MailboxWord::offset(word_);
    ChannelHeader header;
    std::memcpy(&header, at, sizeof header);
    CreditLine line;
    std::memcpy(&line, at + transport::ChannelLayout::credits, sizeof line);
    const std::uint64_t nonce = input_.below(8) == 7 ? 0 : header.nonce;
    if (input_.flag()) line.lines = nonce + input_.lie(header.ring_lines);
    if (input_.flag()) line.cells = nonce + input_.lie(8);
    if (input_.flag()) {
      line.clear_to_send = {.message = nonce + input_.below(64),
                            .offset = 64ull * input_.number<std::uint16_t>(),
                            .from = 4096 * input_.below(4),
                            .until = 4096 * input_.below(16)};
      if (input_.below(4) == 3) line.clear_to_send.offset = input_.lie(world_.frozen.bytes());
      if (input_.below(4) == 3) line.clear_to_send.until = input_.lie(world_.frozen.bytes());
      if (input_.below(8) != 7) line.clear_to_send.checksum = checksum_of(line.clear_to_send);
    }
    std::memcpy(at + transport::ChannelLayout::credits, &line, sizeof line);
    if (input_.below(8) != 7) return;
    const std::uint64_t word = input_.number<std::uint64_t>();
    std::memcpy(at + 8 * input_.below(2000), &word, 8);  // it can also reach the other lines
  }

  World& world_;
  TxContext& context_;
  TxChannel& channel_;
  const std::uint64_t& word_;
  Input& input_;
  BufferCallbacks callbacks_;
  std::vector<std::unique_ptr<Operation>> operations_;
};

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  using namespace penstock::fuzz;
  using namespace penstock::transport;
  Input input(data, size);
  World& world = fresh<World>(choose_mode(input));
  auto settings = settings_for(world.frozen.pool().memory().mode());
  need(settings);
  settings->ring_lines = 64;  // it is full soon, even with short inputs
  settings->rendezvous_put_min_bytes = 8192;
  settings->lines_max_bytes = std::min(settings->lines_max_bytes, 2048u);
  settings->cell_bytes = 4096u << input.below(3);
  EndpointStats stats;
  const Address self{world.frozen.pool().info().id, 11, 3, 4};
  {
    TxMemory memory(*world.arena, world.table, self);
    TxContext context{world.frozen.pool(),
                      world.frozen.pool().memory(),
                      *settings,
                      memory,
                      self,
                      0,
                      0,
                      std::vector<std::byte>(settings->cell_bytes)};
    alignas(64) std::uint64_t mailbox[8] = {};
    auto channel = TxChannel::make(context, Address{self.pool_id, self.job, 5, 6},
                                   MailboxWords{&mailbox[0], &mailbox[1]}, stats, false);
    need(channel);
    Sender sender(world, context, **channel, mailbox[0], input);
    for (int steps = 0; steps < 64 && !input.empty(); ++steps) sender.step();
    sender.end();
    expect(world.untouched(world.before) && world.untouched(world.after));
  }
  return 0;
}
