#include "sim/process/settings.hpp"

#include <charconv>
#include <string_view>

#include "base/env.hpp"
#include "base/format.hpp"

namespace penstock::sim {

namespace {

struct Chance {
  const char* name;
  std::uint32_t Knobs::*knob;
};
constexpr Chance chances[] = {{"deliver", &Knobs::deliver},   {"evict", &Knobs::evict},
                              {"prefetch", &Knobs::prefetch}, {"drop_early", &Knobs::drop_early},
                              {"tear", &Knobs::tear},         {"keep", &Knobs::keep},
                              {"stored", &Knobs::stored}};
struct Switch {
  const char* name;
  bool Knobs::*knob;
};
constexpr Switch switches[] = {{"whole_lines", &Knobs::whole_lines},
                               {"whole_line_words", &Knobs::whole_line_words},
                               {"idle_write_back", &Knobs::idle_write_back}};
constexpr std::uint32_t always = 1000;
constexpr std::uint32_t longest_delay = 1'000'000;

std::optional<std::uint32_t> number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// False when the name or the number is none.
bool set(Knobs& knobs, std::string_view name, std::string_view text) {
  const auto value = number(text);
  if (!value) return false;
  if (name == "max_delay" && *value >= 1 && *value <= longest_delay) {
    knobs.max_delay = *value;
    return true;
  }
  for (const Switch& each : switches) {
    if (name != each.name || *value > 1) continue;
    knobs.*each.knob = *value == 1;
    return true;
  }
  for (const Chance& chance : chances) {
    if (name != chance.name || *value > always) continue;
    knobs.*chance.knob = *value;
    return true;
  }
  return false;
}

Result<Knobs> parse_knobs(std::string_view text) {
  Knobs knobs;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    const bool known = equals != std::string_view::npos &&
                       set(knobs, item.substr(0, equals), item.substr(equals + 1));
    if (known) continue;
    return fail(Code::invalid_argument,
                "'{}' in PENSTOCK_SIM_KNOBS is no knob; they are deliver, evict, prefetch, "
                "drop_early, tear, keep and stored (0 to {}), max_delay (1 to {}), whole_lines, "
                "whole_line_words "
                "and idle_write_back (0 or 1): export PENSTOCK_SIM_KNOBS={}",
                item, always, longest_delay, knobs_text(Knobs{}));
  }
  return knobs;
}

Result<Break> parse_break(std::string_view text) {
  using Operation = Break::Operation;
  constexpr std::pair<const char*, Operation> operations[] = {
      {"invalidate", Operation::invalidate},
      {"settle", Operation::settle},
      {"write_back", Operation::write_back}};
  const std::size_t equals = text.find('=');
  const auto every =
      equals == std::string_view::npos ? std::nullopt : number(text.substr(equals + 1));
  for (const auto& [name, operation] : operations) {
    if (every && *every > 0 && text.substr(0, equals) == name) {
      return Break{.operation = operation, .every = *every};
    }
  }
  return fail(Code::invalid_argument,
              "PENSTOCK_SIM_BREAK is '{}'; it must be invalidate=N, settle=N or "
              "write_back=N, N at least 1: unset PENSTOCK_SIM_BREAK",
              text);
}

}  // namespace

Knobs Settings::knobs_of(std::uint64_t thread_seed) const {
  Knobs of_thread = knobs ? *knobs : Knobs{}.in_the_mood_of(thread_seed);
  of_thread.lazy_order = false;
  of_thread.hold_unordered = false;
  return of_thread;
}

Result<Settings> settings_from_environment() {
  Settings settings;
  if (base::env_is_set("PENSTOCK_SIM_SEED")) {
    const auto seed = base::env_number("PENSTOCK_SIM_SEED");
    if (!seed) return unexpected(seed.error());
    settings.seed = *seed;
  }
  if (base::env_is_set("PENSTOCK_SIM_KNOBS")) {
    const auto knobs = parse_knobs(base::env_text("PENSTOCK_SIM_KNOBS"));
    if (!knobs) return unexpected(knobs.error());
    settings.knobs = *knobs;
  }
  if (base::env_is_set("PENSTOCK_SIM_BREAK")) {
    const auto left_out = parse_break(base::env_text("PENSTOCK_SIM_BREAK"));
    if (!left_out) return unexpected(left_out.error());
    settings.left_out = *left_out;
  }
  return settings;
}

std::string knobs_text(const Knobs& knobs) {
  std::string text;
  for (const Chance& chance : chances) {
    text += fmt::format("{}={},", chance.name, knobs.*chance.knob);
  }
  text += fmt::format("max_delay={}", knobs.max_delay);
  for (const Switch& each : switches) {
    text += fmt::format(",{}={}", each.name, knobs.*each.knob ? 1 : 0);
  }
  return text;
}

}  // namespace penstock::sim
