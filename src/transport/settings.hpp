// Thresholds and channel sizes; they depend on the pool's mode. Measured in lab/bench/.
#pragma once

#include <cstdint>

#include "base/status.hpp"
#include "coherence/coherence.hpp"

namespace penstock::transport {

struct Settings {
  std::uint32_t first_ring_lines;  ///< lines of a channel's first ring, a power of two
  std::uint32_t first_cell_count;  ///< cells of a new channel
  std::uint32_t ring_lines;        ///< lines of a busy channel's ring, a power of two
  std::uint32_t lines_max_bytes;   ///< longest message in tagged lines
  std::uint32_t cell_bytes;        ///< size of a cell, whole lines
  std::uint32_t cell_count;        ///< cells of a busy channel, a multiple of 8
  std::uint32_t batch_bytes;       ///< most payload that is invalidated together
  std::uint32_t warm_looks;        ///< looks of one progress() during an active conversation
  std::uint64_t
      rendezvous_get_min_bytes;  ///< shortest payload in the pool that the receiver copies directly
  std::uint64_t get_piece_bytes;  ///< least bytes of it announced together; 0: all of it
  std::uint64_t
      rendezvous_put_min_bytes;  ///< shortest message stored directly into a receive buffer
  std::uint32_t inject_bytes;    ///< longest message for try_inject
  std::uint64_t idle_ns;         ///< a channel is idle if nothing was sent on it for this long
};

/// Defaults of `mode`, changed by PENSTOCK_CHANNELS. Errors: invalid_argument.
Result<Settings> settings_for(coherence::Mode mode);

}  // namespace penstock::transport
