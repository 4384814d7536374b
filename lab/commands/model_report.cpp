#include "model_report.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cmath>

#include "command.hpp"
#include "table.hpp"

namespace penstock::tools {

namespace {

std::string number(double value) {
  return fmt::format("{:.3g}", value);
}

std::string times(double value) {
  if (!std::isfinite(value)) return "-";  // the pool costs nothing
  return fmt::format("{:.{}f}x", value, value < 9.95 ? 2 : 0);
}

std::string range(double least, double greatest) {
  const std::string first = fmt::format("{:.2f}", least), last = fmt::format("{:.2f}", greatest);
  return first == last ? first : first + " - " + last;
}

void print_growth(const std::vector<model::Growth>& growth) {
  fmt::print(
      "Growth over 3 nodes on 6 devices, by CCCL's schedules as published (platform cccl), and by "
      "this engine's\n");
  Table table({{"COLLECTIVE"},
               {"NODES", Align::right},
               {"PUBLISHED", Align::right},
               {"MODEL", Align::right},
               {"CHUNKS"},
               {"WITHIN 5 %"},
               {"ENGINE", Align::right},
               {"FASTER", Align::right},
               {"BY"}});
  for (const model::Growth& each : growth)
    table.add({name_of(each.collective), std::to_string(each.nodes),
               range(each.published_least, each.published_greatest),
               range(each.least, each.greatest), fmt::format("{}", fmt::join(each.chunks, ", ")),
               each.within(0.05) ? "yes" : "no", fmt::format("{:.2f}", each.engine),
               times(each.gain), each.engine_how});
  fmt::print("{}\n{}\n\n", table.text(), model::chosen_to_fit);
}

void print_calls(const ModelResults& results) {
  const model::PlatformSet& set = results.platform;
  fmt::print(
      "Times on platform {} ({} device{}); networks: how many times as long as the fastest\n",
      set.name, set.devices, set.devices == 1 ? "" : "s");
  std::vector<Heading> headings = {{"COLLECTIVE"},          {"NODES", Align::right},
                                   {"BYTES", Align::right}, {"ENGINE'S CHOICE"},
                                   {"TIME", Align::right},  {"FASTEST"},
                                   {"TIME", Align::right},  {"BUSIEST"}};
  for (const model::Network& network : model::networks())
    headings.push_back({std::string(network.name), Align::right});
  Table table(headings);
  for (const model::Comparison& call : results.calls) {
    const model::PlanTime &usual = call.plans[0], &fastest = call.plans[call.fastest];
    std::vector<Entry> row = {
        name_of(call.call.collective),
        std::to_string(call.call.ranks / call.call.per_node),
        about(call.call.block),
        usual.how,
        about_ns(usual.seconds * 1e9),
        call.fastest == 0 ? "the same" : fastest.how,
        about_ns(fastest.seconds * 1e9),
        fmt::format("{} {:.0f} %", fastest.busiest.what, fastest.busiest.share * 100)};
    for (const model::NetworkTime& each : call.networks)
      row.push_back(times(each.seconds / fastest.seconds));
    row.resize(headings.size(), Entry("-"));
    table.add(row);
  }
  fmt::print("{}\n", table.text());
  for (const model::Network& network : model::networks())
    fmt::print("{}: {} GB/s, {:.0f} % of its line, {} us. {}\n", network.name,
               number(network.line_GBps * network.fraction), network.fraction * 100,
               number(network.latency_us), network.source);
}

Json plan_facts(const model::PlanTime& plan) {
  return {{"how", plan.how},
          {"seconds", plan.seconds},
          {"busiest", plan.busiest.what},
          {"busy", plan.busiest.share}};
}

Json call_facts(const model::Comparison& call) {
  Json plans = Json::array(), networks = Json::array();
  for (const model::PlanTime& plan : call.plans) plans.push_back(plan_facts(plan));
  for (const model::NetworkTime& each : call.networks)
    networks.push_back(
        {{"name", each.network->name}, {"seconds", each.seconds}, {"tie_fraction", each.tie}});
  return {{"collective", name_of(call.call.collective)},
          {"nodes", call.call.ranks / call.call.per_node},
          {"ranks_per_node", call.call.per_node},
          {"bytes", call.call.bytes},
          {"block_bytes", call.call.block},
          {"choice", plan_facts(call.plans[0])},
          {"fastest", plan_facts(call.plans[call.fastest])},
          {"plans", plans},
          {"networks", networks}};
}

Json growth_facts(const model::Growth& each) {
  return {{"collective", name_of(each.collective)},
          {"nodes", each.nodes},
          {"over_nodes", 3},
          {"published", {each.published_least, each.published_greatest}},
          {"model", {each.least, each.greatest}},
          {"chunks", each.chunks},
          {"note", model::chosen_to_fit},
          {"within_5_percent", each.within(0.05)},
          {"engine", each.engine},
          {"engine_how", each.engine_how},
          {"engine_gain", each.gain}};
}

}  // namespace

void print_platform(const model::PlatformSet& set) {
  fmt::print("{}: {}; {} device{}, {} slots of {} a rank\n", set.name, set.meaning, set.devices,
             set.devices == 1 ? "" : "s", set.slots, about(set.slot_bytes));
  Table table({{"VALUE"}, {"", Align::right}, {"UNIT"}, {"SOURCE"}});
  const model::Platform platform = set.platform();
  for (const model::PlatformField& field : model::fields()) {
    std::string_view source = "no limit, no cost";
    for (const auto& value : set.values)
      if (value.name == field.name) source = value.source;
    table.add({std::string(field.name), number(platform.*field.at), std::string(field.unit),
               std::string(source)});
  }
  fmt::print("{}\n", table.text());
}

void print_results(const ModelResults& results) {
  if (!results.growth.empty()) print_growth(results.growth);
  if (!results.calls.empty()) print_calls(results);
}

Json facts_of(const model::PlatformSet& set) {
  Json values = Json::array();
  for (const auto& value : set.values) {
    std::string_view unit;
    for (const model::PlatformField& field : model::fields())
      if (field.name == value.name) unit = field.unit;
    values.push_back(
        {{"name", value.name}, {"value", value.value}, {"unit", unit}, {"source", value.source}});
  }
  return {{"name", set.name},   {"meaning", set.meaning},       {"devices", set.devices},
          {"slots", set.slots}, {"slot_bytes", set.slot_bytes}, {"values", values}};
}

Json facts_of(const ModelResults& results) {
  Json growth = Json::array(), calls = Json::array(), networks = Json::array();
  for (const model::Growth& each : results.growth) growth.push_back(growth_facts(each));
  for (const model::Comparison& call : results.calls) calls.push_back(call_facts(call));
  for (const model::Network& network : model::networks())
    networks.push_back({{"name", network.name},
                        {"line_GBps", network.line_GBps},
                        {"fraction", network.fraction},
                        {"latency_us", network.latency_us},
                        {"source", network.source}});
  return {{"platform", facts_of(results.platform)},
          {"networks", networks},
          {"growth", growth},
          {"calls", calls}};
}

}  // namespace penstock::tools
