#include "rates.hpp"

namespace penstock::tools {

void RateMeter::begin(std::uint64_t now_ns) {
  before_ = std::exchange(now_, {});
  before_ns_ = std::exchange(now_ns_, now_ns);
}

std::optional<Rates> RateMeter::rates_of(const std::string& spec,
                                         const pool::ProcessRecord& record) {
  const pool::ProcessStats stats{record.messages_sent, record.bytes_sent, record.messages_received,
                                 record.bytes_received};
  now_[{spec, record.token()}] = stats;
  const auto found = before_.find({spec, record.token()});
  if (found == before_.end() || now_ns_ <= before_ns_) return std::nullopt;
  const double seconds = static_cast<double>(now_ns_ - before_ns_) / 1e9;
  // Counts shrink when one of a process's attachments has ended.
  const auto rate = [&](std::uint64_t now, std::uint64_t before) {
    return now < before ? 0 : static_cast<double>(now - before) / seconds;
  };
  const pool::ProcessStats& was = found->second;
  return Rates{rate(stats.messages_sent, was.messages_sent), rate(stats.bytes_sent, was.bytes_sent),
               rate(stats.messages_received, was.messages_received),
               rate(stats.bytes_received, was.bytes_received)};
}

}  // namespace penstock::tools
