#include "scaling_study.hpp"

#include <algorithm>

#include "base/format.hpp"
#include "command.hpp"
#include "scaling_run.hpp"
#include "scaling_traces.hpp"

namespace penstock::tools {

namespace {

/// A number of hosts, and what runs on them.
struct Scene {
  const ScalingProgram* program = nullptr;
  std::uint32_t nodes = 0, ranks = 0;
  double compute = 0;        ///< of the rank that computes longest
  std::string name, traces;  ///< names of its files, and of the file that lists them
  std::vector<std::string> texts;
};

Result<Scene> scene_of(const ScalingProgram& program, const ScalingOptions& options,
                       std::uint32_t nodes, std::size_t number, const std::string& folder) {
  constexpr std::uint32_t most = 1024;
  Scene scene{.program = &program, .nodes = nodes, .ranks = program.ranks};
  if (scene.ranks == 0) scene.ranks = nodes * options.per_node;
  if (scene.ranks > most)
    return fail(ErrorCode::invalid_argument, "{} on {} are {} ranks; up to {} are simulated",
                program.name, counted(nodes, "host"), scene.ranks, most);
  if (scene.ranks % nodes != 0)
    return fail(
        ErrorCode::invalid_argument,
        "{} ranks on {}: each needs the same number of ranks, so give --nodes divisors of {}",
        scene.ranks, counted(nodes, "host"), scene.ranks);
  scene.texts = PENSTOCK_TRY(program.traces(scene.ranks));
  for (const std::string& text : scene.texts)
    scene.compute = std::max(scene.compute, flops_of(text) / (options.gflops * 1e9));
  scene.name = fmt::format("scene-{}", number);
  scene.traces = PENSTOCK_TRY(write_traces(folder, scene.texts, scene.name));
  return scene;
}

/// The replays of one scene, and the results for each network.
class Replays {
 public:
  Replays(const Scene& scene, const ScalingOptions& options, std::string folder)
      : scene_(scene), options_(options), folder_(std::move(folder)) {}

  /// Adds the simulations for a network; run() supplies the times.
  Result<void> add(const ScalingNetwork& network) {
    constexpr ScalingVariant whole = ScalingVariant::whole, alone = ScalingVariant::alone;
    if (none_ == unset) none_ = want(network, 0, ScalingVariant::no_network, scene_.traces);
    Wanted wanted{.network = &network};
    const Traces traces = PENSTOCK_TRY(traces_over(network));
    wanted.alone = want(network, 0, alone, traces.alone);
    wanted.timely = want(network, 0, ScalingVariant::no_latency, traces.timely);
    wanted.whole = want(network, 0, whole, traces.whole);
    if (!network.is_pool) wanted.limited.emplace_back(0, wanted.whole);
    for (const std::uint32_t devices : options_.devices)
      if (network.is_pool)
        wanted.limited.emplace_back(
            devices, devices == 0 ? wanted.whole : want(network, devices, whole, traces.whole));
    wanted_.push_back(wanted);
    return {};
  }
  std::size_t count() const { return replays_.size(); }

  Result<std::vector<ScalingCase>> run(const bench::HeldSignals& signals,
                                       const std::function<void()>& done) const {
    const auto took = PENSTOCK_TRY(replay_all(folder_, replays_, signals, done));
    std::vector<ScalingCase> cases;
    for (const Wanted& wanted : wanted_)
      for (const auto& [devices, index] : wanted.limited)
        cases.push_back({.program = scene_.program,
                         .network = wanted.network,
                         .nodes = scene_.nodes,
                         .ranks = scene_.ranks,
                         .devices = devices,
                         .total = took[index],
                         .compute = scene_.compute,
                         .latency = took[wanted.whole] - took[wanted.timely],
                         .bandwidth = took[wanted.alone] - took[none_],
                         .contention = took[index] - (took[wanted.whole] - took[wanted.timely]) -
                                       took[wanted.alone],
                         .wait = took[none_] - scene_.compute});
    return cases;
  }

 private:
  static constexpr std::size_t unset = ~std::size_t{};
  struct Wanted {
    const ScalingNetwork* network = nullptr;
    std::size_t alone = 0, timely = 0, whole = 0;
    std::vector<std::pair<std::uint32_t, std::size_t>> limited;  ///< devices, index
  };

  /// The files that list the traces, by what is left out.
  struct Traces {
    std::string alone, timely, whole;
  };

  std::size_t want(const ScalingNetwork& network, std::uint32_t devices, ScalingVariant variant,
                   const std::string& traces) {
    const std::uint32_t nodes = network.core_copies ? scene_.ranks : scene_.nodes;
    const ScalingHosts hosts{nodes, scene_.ranks / nodes, devices, options_.gflops};
    replays_.push_back({traces, scene_.ranks, nodes, platform_xml(network, hosts, variant)});
    return replays_.size() - 1;
  }
  /// For a core that copies: the time for an empty message is latency; the extra time for more
  /// bytes, while its own message leaves, is contention.
  Result<Traces> traces_over(const ScalingNetwork& network) const {
    if (!network.core_copies) return Traces{scene_.traces, scene_.traces, scene_.traces};
    const double flops = options_.gflops * 1e3;
    const auto posting = [&](std::uint64_t bytes) { return network.posting_us(bytes) * flops; };
    const auto bytes_alone = [&](std::uint64_t bytes) {
      return std::max(posting(bytes) - posting(0), 0.0);
    };
    const auto to_self = [&](std::uint64_t bytes) { return network.to_self_us(bytes) * flops; };
    CoreWork work;
    if (!network.to_self.empty()) work.to_self = to_self;
    Traces traces;
    traces.alone = PENSTOCK_TRY(write_with(work, "alone"));
    work.posting = bytes_alone;
    traces.timely = PENSTOCK_TRY(write_with(work, "timely"));
    work.posting = posting;
    traces.whole = PENSTOCK_TRY(write_with(work, "whole"));
    return traces;
  }
  Result<std::string> write_with(const CoreWork& work, const char* name) const {
    std::vector<std::string> texts;
    for (const std::string& text : scene_.texts) texts.push_back(with_core_work(text, work));
    return write_traces(folder_, texts, fmt::format("{}-{}-{}", scene_.name, name, wanted_.size()));
  }

  const Scene& scene_;
  const ScalingOptions& options_;
  const std::string folder_;
  std::vector<Replay> replays_;
  std::vector<Wanted> wanted_;
  std::size_t none_ = unset;
};

/// The same program and hosts over another network of the set, or another pool; null if there is
/// none.
const ScalingCase* beside(const std::vector<ScalingCase>& cases, const ScalingCase& one,
                          std::string_view network, std::uint32_t devices) {
  for (const ScalingCase& each : cases)
    if (each.program == one.program && each.network->set == one.network->set &&
        each.network->network == network && each.nodes == one.nodes && each.devices == devices)
      return &each;
  return nullptr;
}

std::string range_of(std::vector<double> values, const char* form) {
  std::sort(values.begin(), values.end());
  const std::string least = fmt::format(fmt::runtime(form), values.front());
  const std::string greatest = fmt::format(fmt::runtime(form), values.back());
  return least == greatest ? least : least + " to " + greatest;
}

/// Compares communication over CXL with that over another network, on several hosts.
void add_comparison(const std::vector<ScalingCase>& cases, const ScalingProgram* program,
                    const std::string& set, const char* other, std::vector<std::string>& found) {
  std::vector<double> longer, share;
  for (const ScalingCase& each : cases) {
    if (each.program != program || each.network->set != set || each.network->network != "CXL" ||
        each.devices != 0 || each.nodes < 2)
      continue;
    const ScalingCase* const over = beside(cases, each, other, 0);
    if (over == nullptr || each.communication() <= 0) continue;
    longer.push_back(over->communication() / each.communication());
    share.push_back(each.communication() / each.total * 100);
  }
  if (longer.empty()) return;
  found.push_back(fmt::format(
      "{}, {}: communication over {} takes {} times as long as over CXL without a limit of the "
      "pool; over CXL it is {} % of the time.",
      program->name, set, other, range_of(longer, "{:.2f}"), range_of(share, "{:.1f}")));
}

/// The cost of a pool with few devices, on the most hosts.
void add_devices(const std::vector<ScalingCase>& cases, const ScalingCase& one,
                 std::vector<std::string>& found) {
  const ScalingCase* const free = beside(cases, one, one.network->network, 0);
  const bool last = std::none_of(cases.begin(), cases.end(), [&](const ScalingCase& other) {
    return other.program == one.program && other.network == one.network && other.nodes > one.nodes;
  });
  if (one.devices == 0 || free == nullptr || !last || free->communication() <= 0) return;
  if (one.communication() < 1.05 * free->communication()) return;
  found.push_back(fmt::format(
      "{}, {}, {} on {}: a pool of {} makes communication {:.1f} times as long as one without a "
      "limit.",
      one.program->name, one.network->set, one.network->network, counted(one.nodes, "host"),
      counted(one.devices, "device"), one.communication() / free->communication()));
}

}  // namespace

Result<std::vector<ScalingCase>> study_scaling(const ScalingOptions& options,
                                               const bench::HeldSignals& signals,
                                               const ScalingProgress& progress) {
  const ScratchFolder folder;
  std::vector<Scene> scenes;
  for (const ScalingProgram& program : options.programs)
    for (const std::uint32_t nodes : options.nodes)
      scenes.push_back(
          PENSTOCK_TRY(scene_of(program, options, nodes, scenes.size(), folder.path())));
  std::size_t done = 0, all = 0;
  std::vector<Replays> replays;
  for (const Scene& scene : scenes) {
    replays.emplace_back(scene, options, folder.path());
    for (const ScalingNetwork& network : options.networks)
      PENSTOCK_TRY(replays.back().add(network));
    all += replays.back().count();
  }
  std::vector<ScalingCase> cases;
  for (const Replays& each : replays) {
    const auto more = PENSTOCK_TRY(each.run(signals, [&] {
      if (progress) progress(++done, all);
    }));
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

std::vector<std::string> findings_of(const std::vector<ScalingCase>& cases) {
  std::vector<std::string> found;
  std::vector<std::pair<const ScalingProgram*, std::string>> seen;
  for (const ScalingCase& each : cases) {
    const std::pair one{each.program, each.network->set};
    if (std::find(seen.begin(), seen.end(), one) != seen.end()) continue;
    seen.push_back(one);
    for (const char* other : {"CX-6 Dx", "Ethernet"})
      add_comparison(cases, one.first, one.second, other, found);
  }
  for (const ScalingCase& each : cases) add_devices(cases, each, found);
  return found;
}

}  // namespace penstock::tools
