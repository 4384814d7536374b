// penstock model: how long collectives would take on pools and networks that are described by
// numbers.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <optional>

#include "base/env.hpp"
#include "command.hpp"
#include "model_report.hpp"
#include "timeline.hpp"

namespace penstock::tools {

namespace {

using coll::Collective;

struct ModelArguments {
  std::string platform = "gpu", changes, timeline;
  std::vector<std::string> collectives, sizes;
  std::vector<std::uint32_t> nodes;
  std::uint32_t per_node = 1;
  bool json = false, quick = false, list = false, growth_only = false;
};

Result<std::vector<Collective>> collectives_of(const ModelArguments& arguments) {
  if (arguments.collectives.empty() && arguments.quick)
    return std::vector{Collective::allreduce, Collective::allgather, Collective::broadcast,
                       Collective::alltoall};
  std::vector<Collective> wanted;
  std::string known;
  for (std::size_t i = 0; i < coll::collective_count; ++i) {
    const auto collective = static_cast<Collective>(i);
    known += std::string(known.empty() ? "" : ", ") + name_of(collective);
    if (arguments.collectives.empty() && model::has_network(collective))
      wanted.push_back(collective);
  }
  for (const std::string& name : arguments.collectives) {
    const std::size_t before = wanted.size();
    for (std::size_t i = 0; i < coll::collective_count; ++i)
      if (name == name_of(static_cast<Collective>(i))) wanted.push_back(static_cast<Collective>(i));
    if (wanted.size() == before)
      return fail(ErrorCode::invalid_argument, "there is no collective '{}'; there are {}", name,
                  known);
  }
  return wanted;
}

Result<std::vector<std::uint64_t>> sizes_of(const ModelArguments& arguments) {
  std::vector<std::string> words = arguments.sizes;
  if (words.empty()) words = {"1K", "64K", "1M", "16M", "128M"};
  if (arguments.sizes.empty() && arguments.quick) words = {"1K", "1M", "16M"};
  constexpr std::uint64_t most = 1 << 30;
  std::vector<std::uint64_t> sizes;
  for (const std::string& word : words) {
    const std::uint64_t bytes = PENSTOCK_TRY(base::parse_bytes(word));
    if (bytes < 4 || bytes > most)
      return fail(ErrorCode::invalid_argument, "{} bytes a rank: 4 to 1G are modelled", word);
    sizes.push_back(bytes / 4 * 4);
  }
  return sizes;
}

Result<std::vector<model::Comparison>> model_calls(const ModelArguments& arguments,
                                                   const model::PlatformSet& set) {
  std::vector<std::uint32_t> nodes = arguments.nodes;
  if (nodes.empty()) nodes = {2, 3, 4, 6, 8, 12};
  if (arguments.nodes.empty() && arguments.quick) nodes = {3, 6, 12};
  std::vector<model::Comparison> calls;
  for (const Collective collective : PENSTOCK_TRY(collectives_of(arguments))) {
    for (const std::uint32_t count : nodes) {
      for (const std::uint64_t bytes : PENSTOCK_TRY(sizes_of(arguments))) {
        const std::uint32_t ranks = count * arguments.per_node;
        constexpr std::uint32_t most = 512;
        if (ranks > most)
          return fail(ErrorCode::invalid_argument,
                      "{} nodes of {} ranks are {} ranks; up to {} are modelled", count,
                      arguments.per_node, ranks, most);
        const model::PoolCase call{collective, ranks, arguments.per_node,
                                   model::block_of(collective, ranks, bytes), bytes};
        calls.push_back(PENSTOCK_TRY(model::compare(set, call)));
        if (collective == Collective::barrier) break;
      }
    }
  }
  return calls;
}

/// Writes the timeline of the engine's choice for the one modelled call.
Result<void> leave_timeline(base::OutputFile& file, const ModelResults& results) {
  if (results.calls.size() != 1)
    return fail(ErrorCode::invalid_argument,
                "--timeline shows one call, and {} are modelled: name one by --collective, --nodes "
                "and --sizes",
                results.calls.size());
  const model::Comparison& call = results.calls[0];
  const auto outcome =
      PENSTOCK_TRY(model::run_on_pool(results.platform, call.call, call.plans[0].plan, true));
  return write_timeline(
      file, modelled_timeline(
                fmt::format("{} of {} ranks, {}, by {} on platform {}",
                            name_of(call.call.collective), call.call.ranks, about(call.call.bytes),
                            call.plans[0].how, results.platform.name),
                outcome.spans));
}

Result<ModelResults> model_all(const ModelArguments& arguments) {
  ModelResults results{.platform = *PENSTOCK_TRY(model::find_platform(arguments.platform))};
  PENSTOCK_TRY(model::change(results.platform, arguments.changes));
  std::optional<base::OutputFile> timeline;
  if (!arguments.timeline.empty()) timeline = PENSTOCK_TRY(open_timeline(arguments.timeline));
  const bool named = !arguments.collectives.empty() || !arguments.nodes.empty() ||
                     !arguments.sizes.empty() || arguments.per_node != 1;
  if (!named || arguments.growth_only) results.growth = PENSTOCK_TRY(model::published_growth());
  if (!arguments.growth_only)
    results.calls = PENSTOCK_TRY(model_calls(arguments, results.platform));
  if (timeline) PENSTOCK_TRY(leave_timeline(*timeline, results));
  return results;
}

int list_platforms(bool json) {
  Json all = Json::array();
  for (const model::PlatformSet& set : model::platform_sets()) {
    if (json)
      all.push_back(facts_of(set));
    else
      print_platform(set);
  }
  return json ? print_json(all) : exit_ok;
}

int run_model(const ModelArguments& arguments) {
  if (arguments.list) return list_platforms(arguments.json);
  const auto results = model_all(arguments);
  if (!results) return report(results.error());
  if (arguments.json) return print_json(facts_of(*results));
  print_results(*results);
  return exit_ok;
}

void add_collectives(CLI::App& command, Action& chosen) {
  auto arguments = std::make_shared<ModelArguments>();
  CLI::App* model = command.add_subcommand("collectives",
                                           "times of the engine's own schedules on a pool of "
                                           "several devices, beside rings over networks, "
                                           "and the growth that CCCL publishes");
  model->add_option("--platform", arguments->platform, "what the pool and its hosts can do: --list")
      ->capture_default_str();
  model->add_option("--set", arguments->changes,
                    "other values: NAME=NUMBER,..., as device=30,duplex=1,devices=4");
  model
      ->add_option("--collective", arguments->collectives,
                   "collectives, separated by commas (default: all)")
      ->delimiter(',');
  model
      ->add_option("--nodes", arguments->nodes,
                   "numbers of nodes, separated by commas (default: 2 to 12)")
      ->delimiter(',')
      ->check(CLI::Range(1, 256));
  model->add_option("--per-node", arguments->per_node, "ranks of a node")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  model
      ->add_option("--sizes", arguments->sizes,
                   "bytes of a rank, also as 64K or 1M, separated by commas (default: 1K to 128M)")
      ->delimiter(',');
  model->add_option(
      "--timeline", arguments->timeline,
      "of one call: write what each rank and device does when, FILE.svg or FILE.json");
  model->add_flag("--growth", arguments->growth_only, "the published growth alone");
  model->add_flag("--quick", arguments->quick, "fewer collectives, nodes and sizes");
  model->add_flag("--list", arguments->list, "print the platforms and where their values are from");
  add_json_option(*model, arguments->json);
  model->callback([&chosen, arguments] { chosen = [arguments] { return run_model(*arguments); }; });
}

}  // namespace

void add_model_command(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "model", "compute what a pool of several devices would bear for many nodes");
  command->require_subcommand(1);
  add_collectives(*command, chosen);
  add_scaling_command(*command, chosen);
}

}  // namespace penstock::tools
