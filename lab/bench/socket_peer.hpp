// The raw TCP socket between two hosts: one serves, the other measures.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.hpp"
#include "bench/samples.hpp"

namespace penstock::bench {

inline constexpr std::uint16_t peer_port = 7741;

/// The figures for each size: ns one way, MB/s, and ns one way to a polling receiver.
enum SocketRow : std::size_t { latency_row, bandwidth_row, polled_row, row_count };

/// How often a size is sent in a ping-pong; likewise in a stream.
std::size_t ping_pongs(std::size_t bytes);
std::size_t streamed_messages(std::size_t bytes);

/// Answers one client after the other until the process is ended. Drops a client that is silent for
/// 30 s. Errors: the port is not available.
Result<void> serve_peers(std::uint16_t port);

/// Measures all but the polling row. `peer`: HOST or HOST:PORT. Errors: no answer, or none within
/// 30 s.
Result<void> measure_with_peer(const std::string& peer, const std::vector<std::size_t>& sizes,
                               Samples& samples);

}  // namespace penstock::bench
