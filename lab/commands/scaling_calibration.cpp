#include "scaling_calibration.hpp"

#include <algorithm>
#include <cmath>

#include "base/format.hpp"
#include "scaling_run.hpp"
#include "scaling_traces.hpp"

namespace penstock::tools {

namespace {

constexpr int repeats = 200;  // SimGrid prints its times in whole microseconds
constexpr double most = 0.05;

using Texts = std::vector<std::string>;

Texts two_ranks(const std::string& of_first, const std::string& of_second) {
  Texts ranks = {"0 init\n", "1 init\n"};
  for (int i = 0; i < repeats; ++i) ranks[0] += of_first, ranks[1] += of_second;
  ranks[0] += "0 finalize\n";
  ranks[1] += "1 finalize\n";
  return ranks;
}

std::uint64_t elements(std::uint64_t bytes) {
  return std::max<std::uint64_t>(bytes / 8, 1);
}

/// A message there and back.
Texts ping_pong(std::uint64_t bytes) {
  return two_ranks(fmt::format("0 send 1 0 {0} 0\n0 recv 1 0 {0} 0\n", elements(bytes)),
                   fmt::format("1 recv 0 0 {0} 0\n1 send 0 0 {0} 0\n", elements(bytes)));
}

/// Two messages that pass each other, on cores of one Gflop/s.
Texts exchange(std::uint64_t bytes, const ScalingNetwork& network) {
  const CoreWork work{
      .posting = [&](std::uint64_t each) { return network.posting_us(each) * 1e3; }};
  const auto of = [&](int rank) {
    return with_core_work(
        fmt::format("{0} irecv {1} 0 {2} 0\n{0} send {1} 0 {2} 0\n{0} wait {1} {0} 0\n", rank,
                    1 - rank, elements(bytes)),
        work);
  };
  return two_ranks(of(0), of(1));
}

void note(double share, std::uint64_t bytes, double& worst, std::uint64_t& at) {
  if (share > worst) worst = share, at = bytes;
}

Result<Calibration> calibration_of(const ScalingNetwork& network,
                                   const bench::HeldSignals& signals) {
  const ScratchFolder folder;
  const ScalingHosts hosts{.nodes = 2, .per_node = 1};
  const std::string xml = platform_xml(network, hosts, ScalingVariant::whole);
  std::vector<Replay> replays;
  const auto add = [&](const Texts& texts) -> Result<void> {
    const std::string name = fmt::format("calibration-{}", replays.size());
    const auto list = PENSTOCK_TRY(write_traces(folder.path(), texts, name));
    replays.push_back({list, 2, 2, xml});
    return {};
  };
  for (const auto& point : network.measured) PENSTOCK_TRY(add(ping_pong(point.bytes)));
  for (const auto& point : network.exchanged) PENSTOCK_TRY(add(exchange(point.bytes, network)));
  const auto took = PENSTOCK_TRY(replay_all(folder.path(), replays, signals));
  Calibration found{.network = &network};
  const auto off = [&](std::size_t index, int messages, double micro) {
    return std::abs(took[index] / (messages * repeats) * 1e6 / micro - 1);
  };
  const std::size_t one_way = network.measured.size();
  for (std::size_t i = 0; i < one_way; ++i)
    note(off(i, 2, network.measured[i].micro), network.measured[i].bytes, found.worst, found.at);
  for (std::size_t i = 0; i < network.exchanged.size(); ++i)
    note(off(one_way + i, 1, network.exchanged[i].micro), network.exchanged[i].bytes,
         found.worst_exchange, found.exchange_at);
  return found;
}

}  // namespace

Result<std::vector<Calibration>> check_calibration(const std::vector<ScalingNetwork>& networks,
                                                   const bench::HeldSignals& signals) {
  std::vector<Calibration> all;
  for (const ScalingNetwork& network : networks) {
    if (network.measured.empty()) continue;
    const auto found = PENSTOCK_TRY(calibration_of(network, signals));
    if (found.worst > most)
      return fail(
          ErrorCode::mismatch,
          "{} is not reproduced: at {} bytes the simulated latency differs by {:.0f} % from the "
          "measured one, and 5 % are allowed; measure again with more rounds: penstock "
          "bench run pt2pt --procs 2 --repeat 11",
          network.network, found.at, found.worst * 100);
    all.push_back(found);
  }
  return all;
}

}  // namespace penstock::tools
