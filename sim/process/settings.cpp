#include "sim/process/settings.hpp"

#include <charconv>
#include <string_view>

#include "base/env.hpp"
#include "base/format.hpp"

namespace penstock::sim {

namespace {

struct Chance {
  const char* name;
  std::uint32_t FaultModel::*rate;
};
constexpr Chance chances[] = {
    {"deliver", &FaultModel::deliver},   {"evict", &FaultModel::evict},
    {"prefetch", &FaultModel::prefetch}, {"drop_early", &FaultModel::drop_early},
    {"tear", &FaultModel::tear},         {"keep", &FaultModel::keep},
    {"stored", &FaultModel::stored}};
struct Switch {
  const char* name;
  bool FaultModel::*rate;
};
constexpr Switch switches[] = {{"whole_lines", &FaultModel::whole_lines},
                               {"whole_line_words", &FaultModel::whole_line_words},
                               {"idle_write_back", &FaultModel::idle_write_back}};
constexpr std::uint32_t always = 1000;
constexpr std::uint32_t longest_delay = 1'000'000;

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Returns false if the name or the number is invalid.
bool set(FaultModel& faults, std::string_view name, std::string_view text) {
  const auto value = number(text);
  if (!value) return false;
  if (name == "max_delay" && *value >= 1 && *value <= longest_delay) {
    faults.max_delay = *value;
    return true;
  }
  for (const Switch& each : switches) {
    if (name != each.name || *value > 1) continue;
    faults.*each.rate = *value == 1;
    return true;
  }
  for (const Chance& chance : chances) {
    if (name != chance.name || *value > always) continue;
    faults.*chance.rate = *value;
    return true;
  }
  return false;
}

Result<FaultModel> parse_fault_model(std::string_view text) {
  FaultModel faults;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    const bool known = equals != std::string_view::npos &&
                       set(faults, item.substr(0, equals), item.substr(equals + 1));
    if (known) continue;
    return fail(ErrorCode::invalid_argument,
                "'{}' in PENSTOCK_SIM_FAULTS is no fault; they are deliver, evict, prefetch, "
                "drop_early, tear, keep and stored (0 to {}), max_delay (1 to {}), whole_lines, "
                "whole_line_words "
                "and idle_write_back (0 or 1): export PENSTOCK_SIM_FAULTS={}",
                item, always, longest_delay, faults_text(FaultModel{}));
  }
  return faults;
}

Result<Break> parse_break(std::string_view text) {
  using Operation = Break::Operation;
  constexpr std::pair<const char*, Operation> operations[] = {
      {"invalidate", Operation::invalidate},
      {"load_fence", Operation::load_fence},
      {"write_back", Operation::write_back}};
  const std::size_t equals = text.find('=');
  const auto every =
      equals == std::string_view::npos ? std::nullopt : number(text.substr(equals + 1));
  for (const auto& [name, operation] : operations) {
    if (every && *every > 0 && text.substr(0, equals) == name) {
      return Break{.operation = operation, .every = *every};
    }
  }
  return fail(ErrorCode::invalid_argument,
              "PENSTOCK_SIM_BREAK is '{}'; it must be invalidate=N, load_fence=N or "
              "write_back=N, N at least 1: unset PENSTOCK_SIM_BREAK",
              text);
}

}  // namespace

FaultModel Settings::faults_of(std::uint64_t thread_seed) const {
  FaultModel of_thread = faults ? *faults : FaultModel{}.swarm_of(thread_seed);
  of_thread.lazy_store_fence = false;
  of_thread.hold_unordered = false;
  return of_thread;
}

Result<Settings> settings_from_environment() {
  Settings settings;
  if (base::env_is_set("PENSTOCK_SIM_SEED")) {
    settings.seed = PENSTOCK_TRY(base::env_number("PENSTOCK_SIM_SEED"));
  }
  if (base::env_is_set("PENSTOCK_SIM_FAULTS")) {
    settings.faults = PENSTOCK_TRY(parse_fault_model(base::env_text("PENSTOCK_SIM_FAULTS")));
  }
  if (base::env_is_set("PENSTOCK_SIM_BREAK")) {
    settings.left_out = PENSTOCK_TRY(parse_break(base::env_text("PENSTOCK_SIM_BREAK")));
  }
  return settings;
}

std::string faults_text(const FaultModel& faults) {
  std::string text;
  for (const Chance& chance : chances) {
    text += fmt::format("{}={},", chance.name, faults.*chance.rate);
  }
  text += fmt::format("max_delay={}", faults.max_delay);
  for (const Switch& each : switches) {
    text += fmt::format(",{}={}", each.name, faults.*each.rate ? 1 : 0);
  }
  return text;
}

}  // namespace penstock::sim
