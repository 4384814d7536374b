#include "transport/settings.hpp"

#include "base/env.hpp"
#include "base/format.hpp"
#include "transport/layout.hpp"

namespace penstock::transport {

Result<Settings> settings_for(coherence::Mode mode) {
  Settings s{};
  s.first_cell_count = 4;
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
  if (base::env_is_set("PENSTOCK_CELL")) {
    auto cell = base::env_number("PENSTOCK_CELL");
    if (!cell) return unexpected(cell.error());
    if (*cell % line_bytes != 0)
      return fail(ErrorCode::invalid_argument,
                  "PENSTOCK_CELL is {}; a cell has 4K to 16M bytes, a multiple of 64: for example "
                  "export PENSTOCK_CELL=64K",
                  *cell);
    s.cell_bytes = static_cast<std::uint32_t>(*cell);
  }
  if (base::env_is_set("PENSTOCK_CELLS")) {
    auto cells = base::env_number("PENSTOCK_CELLS");
    if (!cells) return unexpected(cells.error());
    if (*cells % 8 != 0)
      return fail(ErrorCode::invalid_argument,
                  "PENSTOCK_CELLS is {}; a channel has 8 to 1024 cells, a multiple of 8: for "
                  "example export PENSTOCK_CELLS=32",
                  *cells);
    s.cell_count = s.first_cell_count = static_cast<std::uint32_t>(*cells);
  }
  const std::uint64_t first = PENSTOCK_TRY(base::env_number("PENSTOCK_FIRST_LINES"));
  if ((first & (first - 1)) != 0)
    return fail(ErrorCode::invalid_argument,
                "PENSTOCK_FIRST_LINES is {}; a ring has 16 to {} lines, a power of two: export "
                "PENSTOCK_FIRST_LINES=64",
                first, s.ring_lines);
  s.first_ring_lines = static_cast<std::uint32_t>(first);  // 64: the whole channel takes 8 KiB
  const std::uint64_t idle_ms = PENSTOCK_TRY(base::env_number("PENSTOCK_IDLE_MS"));
  s.idle_ns = idle_ms * 1'000'000;
  if (base::env_is_set("PENSTOCK_RENDEZVOUS_GET")) {
    s.rendezvous_get_min_bytes = PENSTOCK_TRY(base::env_number("PENSTOCK_RENDEZVOUS_GET"));
  }
  if (base::env_is_set("PENSTOCK_RENDEZVOUS_PUT")) {
    s.rendezvous_put_min_bytes = PENSTOCK_TRY(base::env_number("PENSTOCK_RENDEZVOUS_PUT"));
  }
  s.get_piece_bytes = coherent ? 0 : s.cell_bytes;  // coherent: no write-back to overlap
  s.inject_bytes = s.cell_bytes < (16u << 10) ? s.cell_bytes : 16u << 10;
  return s;
}

}  // namespace penstock::transport
