#include "bench/bare_lines.hpp"

#include <algorithm>
#include <cstring>

namespace penstock::bench {
namespace {

using coherence::line_bytes;
using coherence::sealed_bytes;

/// Lines looked at together while nothing has arrived yet.
constexpr std::size_t first_window_bytes = 8 * sealed_bytes;

/// Without flushes, the seals of longer payload cost more than one word after it.
constexpr std::size_t coherent_seal_limit = 1024;

std::size_t lines_of(std::size_t bytes) {
  return (bytes + sealed_bytes - 1) / sealed_bytes;
}

struct Line {
  std::byte payload[sealed_bytes];
  std::uint64_t seal;
};
static_assert(sizeof(Line) == line_bytes);

}  // namespace

bool BareLines::sealed(std::size_t bytes) const {
  return memory_.loads_may_be_stale() || bytes <= coherent_seal_limit;
}

void BareLines::send_unsealed(const std::byte* data, std::size_t bytes) {
  bulk_.publish_bulk(out_ + line_bytes, data, bytes);
  bulk_.order();
  memory_.publish_word(out_, out_seal_);
}

void BareLines::receive_unsealed(std::byte* to, std::size_t bytes) {
  while (memory_.observe_word(in_) != in_seal_) {
  }
  memory_.observe_bulk(to, in_ + line_bytes, bytes);
}

Result<void> BareLines::send(const std::byte* data, std::size_t bytes) {
  if (bytes <= sealed_bytes) {
    Line line;
    std::memcpy(line.payload, data, bytes);
    line.seal = out_seal_;
    past_ ? memory_.publish_line(out_, &line) : memory_.send_line(out_, &line);
  } else if (!sealed(bytes)) {
    send_unsealed(data, bytes);
  } else {
    memory_.publish_sealed(out_, data, bytes, out_seal_);
  }
  memory_.order();
  out_seal_ += lines_of(bytes);
  return {};
}

Result<void> BareLines::receive(std::byte* to, std::size_t bytes) {
  if (bytes <= sealed_bytes) {
    Line line;
    do {
      memory_.observe_line(&line, in_);
    } while (line.seal != in_seal_);
    std::memcpy(to, line.payload, bytes);
  } else if (!sealed(bytes)) {
    receive_unsealed(to, bytes);
  } else {
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t lines = done / sealed_bytes;
      const std::size_t window = done == 0 ? std::min(bytes, first_window_bytes) : bytes - done;
      const std::byte* from = in_ + lines * line_bytes;
      memory_.invalidate(from, lines_of(window) * line_bytes);
      memory_.settle();
      done += memory_.load_sealed(to + done, from, window, in_seal_ + lines);
    }
  }
  in_seal_ += lines_of(bytes);
  return {};
}

}  // namespace penstock::bench
