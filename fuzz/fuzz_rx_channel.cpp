// A sender that writes arbitrary bytes, against the receiving end of its channel.
#include "fuzz/buffer_callbacks.hpp"
#include "fuzz/forged_channel.hpp"
#include "fuzz/pool_in_memory.hpp"
#include "fuzz/virtual_time.hpp"
#include "transport/rx_channel.hpp"

namespace penstock::fuzz {
namespace {

using namespace penstock::transport;

constexpr Parties parties{
    .job = 11, .source = 3, .source_generation = 4, .target = 5, .target_generation = 6};

const FrozenPool& pool_of(bool software) {
  static const auto frozen = [](coherence::Mode mode) {
    auto made = std::make_unique<FrozenPool>(PoolShape{.mode = mode});
    made->freeze();
    return made;
  };
  static const auto hardware_pool = frozen(coherence::Mode::hardware);
  static const auto software_pool = frozen(coherence::Mode::software);
  return software ? *software_pool : *hardware_pool;
}

std::uint64_t choose_place(const FrozenPool& frozen, Input& input) {
  const std::uint64_t arena = frozen.pool().info().arena_offset;
  switch (input.below(8)) {
    case 6:  // it ends where the pool ends
      return frozen.bytes() - 4096;
    case 7:
      return arena + (input.lie(frozen.bytes() - arena) & ~4095ull);  // spares the lines about this
                                                                      // process
    default:
      return arena + 4096;
  }
}

void poll(RxChannel& channel, BufferCallbacks& callbacks, const FrozenPool& frozen) {
  if (frozen.pool().memory().loads_may_be_stale()) channel.invalidate_window();
  frozen.pool().memory().load_fence();
  const bool was_broken = !channel.fault().empty();
  const unsigned events = callbacks.events();
  channel.poll(callbacks);
  if (was_broken)
    expect(callbacks.events() == events);  // the receiver must not trust anything in
                                           // it any more
  expect(callbacks.half_received() <= 1);
}

void step(ForgedChannel& sender, RxChannel& channel, BufferCallbacks& callbacks,
          const FrozenPool& frozen, Input& input) {
  switch (input.below(8)) {
    case 0:
    case 1:
      return sender.write_message(input);
    case 2:
      return sender.write_flags(input);
    case 3:
      return sender.write_word(input);
    case 4:
      return channel.announced(input.number<std::uint64_t>());
    case 5:
      if (channel.credits_due()) channel.return_credits();
      (void)channel.current();
      (void)channel.quiet();
      return;
    default:
      return poll(channel, callbacks, frozen);
  }
}

}  // namespace
}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace penstock;
  using namespace penstock::fuzz;
  Input input(data, size);
  const FrozenPool& frozen = pool_of(input.flag());
  frozen.reset();
  restart_time();
  auto settings = transport::settings_for(frozen.pool().memory().mode());
  need(settings);
  settings->rendezvous_put_min_bytes = 4096;
  transport::EndpointStats stats;
  const transport::Address self{frozen.pool().info().id, parties.job, parties.target,
                                parties.target_generation};
  transport::RxContext context{frozen.pool(), frozen.pool().memory(), *settings, self};
  const std::uint64_t place = choose_place(frozen, input);
  const std::uint64_t arena = frozen.pool().info().arena_offset;
  const std::uint64_t cells[] = {arena + (64 << 10), place, place + 128, frozen.bytes() - 4096, 0};
  ForgedChannel sender(frozen.base(), frozen.bytes(), place, cells[input.below(std::size(cells))],
                       input.below(8) == 7 ? input.number<std::uint64_t>() : 1ull << 62);
  sender.write_header(parties, input);
  auto channel =
      transport::RxChannel::open(context, place, parties.source, stats, [](auto) { return true; });
  if (!channel) {
    expect(is_told(channel.error()));
    return 0;
  }
  BufferCallbacks callbacks(input, frozen.base() + frozen.bytes() / 2);
  for (int steps = 0; steps < 64 && !input.empty(); ++steps) {
    step(sender, **channel, callbacks, frozen, input);
  }
  poll(**channel, callbacks, frozen);
  (*channel)->fail(Error{ErrorCode::peer_dead, "the sender has died"});
  expect(callbacks.half_received() == 0);
  poll(**channel, callbacks, frozen);
  return 0;
}
