#include "scaling_study.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "base/format.hpp"
#include "model/cg.hpp"
#include "scaling_run.hpp"

namespace penstock::tools {

namespace {

constexpr double flops_per_s = 1e9;  // as the platforms say

Result<std::vector<std::string>> traces_of(const ScalingOptions& options, std::uint32_t nodes) {
  if (!options.replayed.empty()) return read_traces(options.replayed);
  const auto size = PENSTOCK_TRY(model::cg_class(options.size));
  constexpr std::uint32_t most = 1024;
  const std::uint32_t ranks = nodes * options.per_node;
  if (ranks > most)
    return fail(ErrorCode::invalid_argument,
                "{} hosts of {} ranks are {} ranks; up to {} are simulated", nodes,
                options.per_node, ranks, most);
  std::vector<std::string> traces;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    traces.push_back(PENSTOCK_TRY(model::cg_trace(size, ranks, rank, 1)));
  return traces;
}

/// Of the rank that computes longest.
double compute_of(const std::vector<std::string>& traces) {
  double longest = 0;
  for (const std::string& trace : traces) {
    double flops = 0;
    std::istringstream lines(trace);
    std::string rank, what, rest;
    while (lines >> rank >> what && std::getline(lines, rest))
      if (what == "compute") flops += std::strtod(rest.c_str(), nullptr);
    longest = std::max(longest, flops / flops_per_s);
  }
  return longest;
}

/// All cases of one number of hosts.
class OneSize {
 public:
  OneSize(const ScalingOptions& options, std::uint32_t nodes) : options_(options), nodes_(nodes) {}

  Result<void> prepare() {
    const auto traces = PENSTOCK_TRY(traces_of(options_, nodes_));
    ranks_ = static_cast<std::uint32_t>(traces.size());
    if (ranks_ % nodes_ != 0)
      return fail(ErrorCode::invalid_argument, "{} ranks on {} hosts: as many on each are needed",
                  ranks_, nodes_);
    compute_ = compute_of(traces);
    list_ = PENSTOCK_TRY(write_traces(folder_.path(), traces));
    return {};
  }
  Result<std::vector<ScalingCase>> run(const ScalingNetwork& network,
                                       const std::function<void()>& done) {
    const double none = PENSTOCK_TRY(simulate(network, 0, ScalingVariant::no_network));
    const double alone = PENSTOCK_TRY(simulate(network, 0, ScalingVariant::alone));
    const double timely = PENSTOCK_TRY(simulate(network, 0, ScalingVariant::no_latency));
    const double whole = PENSTOCK_TRY(simulate(network, 0, ScalingVariant::whole));
    std::vector<ScalingCase> cases;
    for (const std::uint32_t devices : options_.devices) {
      if (devices != 0 && !network.is_pool) continue;
      const double total =
          devices == 0 ? whole : PENSTOCK_TRY(simulate(network, devices, ScalingVariant::whole));
      cases.push_back({.network = &network,
                       .nodes = nodes_,
                       .ranks = ranks_,
                       .devices = devices,
                       .total = total,
                       .compute = compute_,
                       .latency = whole - timely,
                       .bandwidth = alone - none,
                       .contention = total - (whole - timely) - alone,
                       .wait = none - compute_});
    }
    done();
    return cases;
  }

 private:
  Result<double> simulate(const ScalingNetwork& network, std::uint32_t devices,
                          ScalingVariant variant) {
    const std::string xml = platform_xml(network, nodes_, ranks_ / nodes_, devices, variant);
    return replay(folder_.path(), list_, ranks_, nodes_, xml);
  }

  const ScalingOptions& options_;
  const std::uint32_t nodes_;
  const ScratchFolder folder_;
  std::uint32_t ranks_ = 0;
  double compute_ = 0;
  std::string list_;
};

/// A message there and back, so many times.
std::vector<std::string> ping_pong(std::uint64_t bytes, int times) {
  const std::uint64_t elements = std::max<std::uint64_t>(bytes / 8, 1);
  std::vector<std::string> ranks = {"0 init\n", "1 init\n"};
  for (int i = 0; i < times; ++i) {
    ranks[0] += fmt::format("0 send 1 0 {0} 0\n0 recv 1 0 {0} 0\n", elements);
    ranks[1] += fmt::format("1 recv 0 0 {0} 0\n1 send 0 0 {0} 0\n", elements);
  }
  ranks[0] += "0 finalize\n";
  ranks[1] += "1 finalize\n";
  return ranks;
}

Result<Calibration> calibration_of(const ScalingNetwork& network) {
  constexpr double most = 0.05;
  constexpr int times = 10;
  Calibration found{.network = &network};
  const std::string xml = platform_xml(network, 2, 1, 0, ScalingVariant::whole);
  for (const auto& point : network.measured) {
    const ScratchFolder folder;
    const auto list = PENSTOCK_TRY(write_traces(folder.path(), ping_pong(point.bytes, times)));
    const double seconds = PENSTOCK_TRY(replay(folder.path(), list, 2, 2, xml));
    const double off = std::abs(seconds / (2 * times) * 1e6 / point.micro - 1);
    if (off > found.worst) found.worst = off, found.at = point.bytes;
  }
  if (found.worst <= most) return found;
  return fail(ErrorCode::mismatch,
              "{} is not met: at {} bytes the simulated latency differs by {:.0f} % from the "
              "measured one, and 5 % are allowed; measure again with more rounds: penstock bench "
              "run pt2pt --procs 2 --repeat 11",
              network.network, found.at, found.worst * 100);
}

const ScalingCase* find(const std::vector<ScalingCase>& cases, const std::string& set,
                        std::string_view network, std::uint32_t nodes, std::uint32_t devices) {
  for (const ScalingCase& each : cases)
    if (each.network->set == set && each.network->network == network && each.nodes == nodes &&
        each.devices == devices)
      return &each;
  return nullptr;
}

std::string range_of(std::vector<double> values, const char* form) {
  std::sort(values.begin(), values.end());
  const std::string least = fmt::format(fmt::runtime(form), values.front());
  const std::string greatest = fmt::format(fmt::runtime(form), values.back());
  return least == greatest ? least : least + " to " + greatest;
}

/// Communication over CXL beside that over another network, on several hosts.
void add_comparison(const std::vector<ScalingCase>& cases, const std::string& set,
                    const char* other, std::vector<std::string>& found) {
  std::vector<double> longer, share;
  for (const ScalingCase& each : cases) {
    if (each.network->set != set || each.network->network != "CXL" || each.devices != 0) continue;
    const ScalingCase* const beside = find(cases, set, other, each.nodes, 0);
    if (beside == nullptr || each.nodes < 2) continue;
    longer.push_back(beside->communication() / each.communication());
    share.push_back(each.communication() / each.total * 100);
  }
  if (longer.empty()) return;
  found.push_back(fmt::format(
      "{}: communication over {} takes {} times as long as over CXL without a limit of the pool; "
      "over CXL it is {} % of the time.",
      set, other, range_of(longer, "{:.2f}"), range_of(share, "{:.1f}")));
}

}  // namespace

Result<std::vector<Calibration>> check_calibration(const std::vector<ScalingNetwork>& networks) {
  std::vector<Calibration> found;
  for (const ScalingNetwork& network : networks)
    if (!network.measured.empty()) found.push_back(PENSTOCK_TRY(calibration_of(network)));
  return found;
}

Result<std::vector<ScalingCase>> study_scaling(
    const ScalingOptions& options, const std::function<void(std::size_t, std::size_t)>& progress) {
  std::vector<ScalingCase> cases;
  std::size_t done = 0;
  const std::size_t all = options.nodes.size() * options.networks.size();
  for (const std::uint32_t nodes : options.nodes) {
    OneSize one(options, nodes);
    PENSTOCK_TRY(one.prepare());
    for (const ScalingNetwork& network : options.networks) {
      const auto more = PENSTOCK_TRY(one.run(network, [&] {
        if (progress) progress(++done, all);
      }));
      cases.insert(cases.end(), more.begin(), more.end());
    }
  }
  return cases;
}

std::vector<std::string> findings_of(const std::vector<ScalingCase>& cases) {
  std::vector<std::string> sets, found;
  for (const ScalingCase& each : cases)
    if (std::find(sets.begin(), sets.end(), each.network->set) == sets.end())
      sets.push_back(each.network->set);
  for (const std::string& set : sets)
    for (const char* other : {"CX-6 Dx", "Ethernet"}) add_comparison(cases, set, other, found);
  for (const ScalingCase& each : cases) {
    const ScalingCase* const free =
        find(cases, each.network->set, each.network->network, each.nodes, 0);
    const bool last = std::none_of(cases.begin(), cases.end(), [&](const ScalingCase& other) {
      return other.network == each.network && other.nodes > each.nodes;
    });
    if (each.devices == 0 || free == nullptr || !last) continue;
    if (each.communication() < 1.05 * free->communication()) continue;
    found.push_back(fmt::format(
        "{}, {} on {} hosts: a pool of {} makes communication {:.1f} times as long as one without "
        "a limit.",
        each.network->set, each.network->network, each.nodes,
        each.devices == 1 ? "one device" : fmt::format("{} devices", each.devices),
        each.communication() / free->communication()));
  }
  return found;
}

}  // namespace penstock::tools
