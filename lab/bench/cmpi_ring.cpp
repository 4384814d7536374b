#include "bench/cmpi_ring.hpp"

#include <algorithm>

#include "base/format.hpp"

namespace penstock::bench {

bool CmpiRing::try_send(const std::byte* data, std::size_t bytes) {
  const std::uint64_t head = memory_.observe_word(at_ + 64);
  if (number_ - head >= depth) return false;
  const Header header{number_ + 1, bytes, {}};
  std::byte* to = cell(number_ + 1);
  memory_.publish_bulk(to, &header, sizeof header);
  memory_.publish_bulk(to + sizeof header, data, bytes);
  memory_.store_fence();
  memory_.publish_word(at_, ++number_);
  memory_.store_fence();
  return true;
}

bool CmpiRing::poll() {
  return memory_.observe_word(at_) > number_;
}

std::optional<std::size_t> CmpiRing::take(std::byte* to, std::size_t capacity) {
  const std::byte* from = cell(++number_);
  Header header;
  memory_.observe_bulk(&header, from, sizeof header);
  if (header.number != number_ || header.bytes > std::min<std::uint64_t>(capacity, cell_bytes_))
    return std::nullopt;
  memory_.observe_bulk(to, from + sizeof header, header.bytes);
  memory_.publish_word(at_ + 64, number_);
  memory_.store_fence();
  return header.bytes;
}

Result<coherence::Memory> paper_memory(coherence::Mode mode) {
  return coherence::bind(mode, mode == coherence::Mode::software
                                   ? coherence::FlushChoice::clflushopt
                                   : coherence::FlushChoice::automatic);
}

std::string ring_name(std::uint64_t cell_bytes) {
  return cell_bytes >= 1024 ? fmt::format("cMPI ring, {} KB cells", cell_bytes / 1024)
                            : fmt::format("cMPI ring, {} B cells", cell_bytes);
}

Result<void> CmpiPath::send(const std::byte* data, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    const std::size_t chunk = std::min<std::size_t>(bytes - done, cell_bytes_);
    while (!out_.try_send(data + done, chunk)) found_nothing();
    done += chunk;
  }
  return {};
}

Result<void> CmpiPath::receive(std::byte* to, std::size_t bytes) {
  for (std::size_t done = 0; done < bytes;) {
    while (!in_.poll()) found_nothing();
    const auto taken = in_.take(to + done, bytes - done);
    if (!taken) return fail(ErrorCode::internal, "the published ring delivered a damaged header");
    done += *taken;
  }
  return {};
}

}  // namespace penstock::bench
