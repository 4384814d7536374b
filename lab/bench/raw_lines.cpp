#include "bench/raw_lines.hpp"

#include <algorithm>
#include <cstring>

namespace penstock::bench {
namespace {

using coherence::line_bytes;
using coherence::tagged_bytes;

/// Without flushes, the tags of longer payloads cost more than one word behind the payload.
constexpr std::size_t coherent_tag_limit = 1024;

std::size_t lines_of(std::size_t bytes) {
  return (bytes + tagged_bytes - 1) / tagged_bytes;
}

struct Line {
  std::byte payload[tagged_bytes];
  std::uint64_t line_tag;
};
static_assert(sizeof(Line) == line_bytes);

}  // namespace

bool RawLines::tagged(std::size_t bytes) const {
  return memory_.loads_may_be_stale() || bytes <= coherent_tag_limit;
}

void RawLines::send_untagged(const std::byte* data, std::size_t bytes) {
  bulk_.publish_bulk(out_ + line_bytes, data, bytes);
  bulk_.store_fence();
  memory_.publish_word(out_, out_tag_);
}

void RawLines::receive_untagged(std::byte* to, std::size_t bytes) {
  while (memory_.observe_word(in_) != in_tag_) {
  }
  memory_.observe_bulk(to, in_ + line_bytes, bytes);
}

Result<void> RawLines::send(const std::byte* data, std::size_t bytes) {
  if (bytes <= tagged_bytes) {
    Line line;
    std::memcpy(line.payload, data, bytes);
    line.line_tag = out_tag_;
    past_ ? memory_.publish_line(out_, &line) : memory_.send_line(out_, &line);
  } else if (!tagged(bytes)) {
    send_untagged(data, bytes);
  } else {
    memory_.publish_tagged(out_, data, bytes, out_tag_);
  }
  memory_.store_fence();
  out_tag_ += lines_of(bytes);
  return {};
}

Result<void> RawLines::receive(std::byte* to, std::size_t bytes) {
  if (bytes <= tagged_bytes) {
    Line line;
    do {
      memory_.observe_line(&line, in_);
    } while (line.line_tag != in_tag_);
    std::memcpy(to, line.payload, bytes);
  } else if (!tagged(bytes)) {
    receive_untagged(to, bytes);
  } else {
    for (std::size_t done = 0; done < bytes;) {
      const std::size_t lines = done / tagged_bytes;
      const std::size_t window = done == 0 ? std::min(bytes, first_look_bytes) : bytes - done;
      const std::byte* from = in_ + lines * line_bytes;
      memory_.invalidate(from, lines_of(window) * line_bytes);
      memory_.load_fence();
      done += memory_.load_tagged(to + done, from, window, in_tag_ + lines);
    }
  }
  in_tag_ += lines_of(bytes);
  return {};
}

}  // namespace penstock::bench
