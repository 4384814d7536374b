#include "transport/settings.hpp"

#include "base/env.hpp"

namespace penstock::transport {
namespace {

/// Takes a number of PENSTOCK_CHANNELS, if it is set there.
template <class Number>
Result<void> take(const char* item, Number& to) {
  const auto number = PENSTOCK_TRY(base::env_item("PENSTOCK_CHANNELS", item));
  if (number) to = static_cast<Number>(*number);
  return {};
}

}  // namespace

Result<Settings> settings_for(coherence::Mode mode) {
  Settings s{};
  s.ring_lines = 1024;
  const bool coherent = mode == coherence::Mode::hardware;
  s.lines_max_bytes =
      coherent ? 1024 : 16 << 10;  // without flushes sequence tags cost more than they save
  s.warm_looks = coherent ? 32 : 4;
  s.cell_bytes = 16 << 10;  // a receiver copies the first cell while the second is written
  s.cell_count = 32;
  s.batch_bytes = 128 << 10;
  // writing back the user's stores costs as much as copying them
  constexpr std::uint64_t never = ~0ull;
  const bool flushes = mode == coherence::Mode::software || mode == coherence::Mode::simulated;
  s.rendezvous_get_min_bytes = coherent ? 8 << 10 : flushes ? never : 1 << 20;
  s.rendezvous_put_min_bytes = coherent ? never : 128 << 10;
  PENSTOCK_TRY(take("cell", s.cell_bytes));
  PENSTOCK_TRY(take("cells", s.cell_count));
  s.first_cell_count = 4;
  PENSTOCK_TRY(take("cells", s.first_cell_count));
  s.first_ring_lines = 64;  // the whole channel takes 8 KiB
  PENSTOCK_TRY(take("first_lines", s.first_ring_lines));
  std::uint64_t idle_ms = 10'000;
  PENSTOCK_TRY(take("idle_ms", idle_ms));
  s.idle_ns = idle_ms * 1'000'000;
  PENSTOCK_TRY(take("get", s.rendezvous_get_min_bytes));
  PENSTOCK_TRY(take("put", s.rendezvous_put_min_bytes));
  s.get_piece_bytes = coherent ? 0 : s.cell_bytes;  // coherent: no write-back to overlap
  s.inject_bytes = s.cell_bytes < (16u << 10) ? s.cell_bytes : 16u << 10;
  return s;
}

}  // namespace penstock::transport
