#include "base/env.hpp"

#include <fmt/ranges.h>
#include <strings.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstdlib>

#include "base/format.hpp"
#include "base/log.hpp"
#include "base/nearest.hpp"

namespace penstock::base {
namespace {

constexpr std::string_view prefix = "PENSTOCK_";

const Variable* find_variable(std::string_view name) {
  for (const Variable& variable : variables()) {
    if (name == variable.name) return &variable;
  }
  return nullptr;
}

/// Returns the value in the environment; "" counts as not set, because `VAR= command` is how people
/// unset it.
const char* value_of(std::string_view name) {
  const char* value = std::getenv(std::string(name).c_str());
  return value != nullptr && *value != '\0' ? value : nullptr;
}

bool is_one_of(const std::string& text, std::initializer_list<const char*> words) {
  return std::any_of(words.begin(), words.end(),
                     [&](const char* word) { return strcasecmp(text.c_str(), word) == 0; });
}

bool is_number(const Variable& variable) {
  return is_one_of(variable.values, {"count", "ms", "bytes", "index", "number"});
}

/// The words of "auto|always|never"; none where a value may be something else too.
std::vector<std::string> choices_of(const Variable& variable) {
  const std::string_view values = variable.values;
  std::vector<std::string> words;
  if (values.find('|') == values.npos) return words;
  if (values.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ") != values.npos) return words;
  for (std::size_t at = 0; at <= values.size();) {
    const std::size_t end = std::min(values.find('|', at), values.size());
    words.emplace_back(values.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

Result<void> check_choice(const Variable& variable) {
  const std::string text = env_text(variable.name);
  const auto choices = choices_of(variable);
  if (choices.empty() || std::ranges::find(choices, text) != choices.end()) return {};
  const std::string meant = nearest(text, choices);
  return fail(ErrorCode::invalid_argument,
              "{} is '{}'; it must be one of {}: export {}={}, or unset it", variable.name, text,
              fmt::join(choices, ", "), variable.name, meant.empty() ? choices.front() : meant);
}

/// Other words than 0 and 1 are known for it.
Result<void> check_flag(const Variable& variable) {
  const std::string text = env_text(variable.name);
  if (env_flag(variable.name) || is_one_of(text, {"0", "false", "no", "off"})) return {};
  return fail(ErrorCode::invalid_argument, "{} is '{}'; it must be 0 or 1: export {}=1",
              variable.name, text, variable.name);
}

std::string names_of(std::span<const Item> items) {
  std::string names;
  for (const Item& item : items) names += (names.empty() ? "" : ", ") + std::string(item.name);
  return names;
}

std::string form_of(const Item& item) {
  const std::string kind = item.power_of_two   ? "a power of two"
                           : item.multiple > 1 ? fmt::format("a multiple of {}", item.multiple)
                                               : "a number";
  return item.most == UINT64_MAX ? fmt::format("{} of at least {}", kind, item.least)
                                 : fmt::format("{} from {} to {}", kind, item.least, item.most);
}

bool fits(const Item& item, std::uint64_t number) {
  return number >= item.least && number <= item.most && number % item.multiple == 0 &&
         (!item.power_of_two || (number & (number - 1)) == 0);
}

/// Calls visit(item, number) for each part "NAME=NUMBER" of the variable; nullopt: "NAME=".
template <class Visit>
Result<void> visit_items(const Variable& variable, Visit&& visit) {
  const std::string value = env_text(variable.name);
  std::string_view text = value;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    if (part.empty()) continue;
    const std::size_t equals = std::min(part.find('='), part.size());
    const std::string_view name = part.substr(0, equals);
    const auto item =
        std::ranges::find_if(variable.items, [&](const Item& one) { return name == one.name; });
    if (item == variable.items.end() || equals == part.size())
      return fail(ErrorCode::invalid_argument,
                  "{} has '{}'; it must be NAME=NUMBER,... with the names {}: export {}={}=NUMBER, "
                  "or unset it",
                  variable.name, part, names_of(variable.items), variable.name,
                  variable.items.front().name);
    const std::string_view digits = part.substr(equals + 1);
    if (digits.empty()) {
      visit(*item, std::optional<std::uint64_t>());
      continue;
    }
    const auto number = parse_bytes(digits);
    if (!number || !fits(*item, *number))
      return fail(ErrorCode::invalid_argument,
                  "{} has {}; {} is {}: export {}={}=NUMBER, or unset it", variable.name, part,
                  item->name, form_of(*item), variable.name, item->name);
    visit(*item, std::optional(*number));
  }
  return {};
}

std::string nearest_variable(std::string_view name) {
  std::vector<std::string> keys;
  for (const Variable& variable : variables())
    keys.push_back(std::string(variable.name).substr(prefix.size()));
  const std::string key = nearest(name.substr(prefix.size()), keys);
  return key.empty() ? "" : std::string(prefix) + key;
}

}  // namespace

const char* audience_name(Audience audience) {
  switch (audience) {
    case Audience::user:
      return "users";
    case Audience::administrator:
      return "administrators";
    case Audience::tuning:
      return "tuning";
    case Audience::penstock:
      return "set by Penstock's commands";
    case Audience::tests:
      return "tests";
  }
  return "";
}

std::string env_text(std::string_view name) {
  const Variable* variable = find_variable(name);
  assert(variable != nullptr && "every variable stands in env_table.cpp");
  if (const char* value = value_of(name)) return value;
  return variable != nullptr ? variable->fallback : "";
}

Result<std::uint64_t> env_number(std::string_view name) {
  const std::string text = env_text(name);
  if (text.empty())
    return fail(ErrorCode::invalid_argument, "{} is not set and has no default", name);
  const Variable* variable = find_variable(name);
  auto number = parse_bytes(text);
  if (!number) {
    return fail(
        ErrorCode::invalid_argument,
        "{} is '{}'; it must be a number ({}), such as 4096 or 64K: export {}=NUMBER or unset it",
        name, text, variable != nullptr ? variable->values : "count", name);
  }
  if (variable != nullptr && (*number < variable->least || *number > variable->most)) {
    return fail(ErrorCode::invalid_argument,
                "{} is {}; it must be a number ({}) from {} to {}: export {}=NUMBER or unset it",
                name, text, variable->values, variable->least, variable->most, name);
  }
  return number;
}

Result<std::optional<std::uint32_t>> env_index(std::string_view name) {
  if (!env_is_set(name)) return std::optional<std::uint32_t>();
  const auto number = env_number(name);
  if (!number) return unexpected(number.error());
  return std::optional(static_cast<std::uint32_t>(*number));
}

Result<std::optional<std::uint64_t>> env_item(std::string_view name, std::string_view item) {
  const Variable* variable = find_variable(name);
  assert(variable != nullptr && "every variable stands in env_table.cpp");
  std::optional<std::uint64_t> found;
  PENSTOCK_TRY(visit_items(*variable, [&](const Item& one, std::optional<std::uint64_t> number) {
    if (item == one.name) found = number;
  }));
  return found;
}

bool env_is_set(std::string_view name) {
  return value_of(name) != nullptr;
}

bool env_flag(std::string_view name) {
  return is_one_of(env_text(name), {"1", "true", "yes", "on"});
}

Result<void> check_variables() {
  for (const Variable& variable : variables()) {
    if (!env_is_set(variable.name)) continue;
    if (!variable.items.empty()) {
      PENSTOCK_TRY(visit_items(variable, [](const Item&, std::optional<std::uint64_t>) {}));
    } else if (is_number(variable)) {
      if (auto number = env_number(variable.name); !number) return unexpected(number.error());
    } else {
      const bool is_flag = std::string_view(variable.values) == "0|1";
      PENSTOCK_TRY(is_flag ? check_flag(variable) : check_choice(variable));
    }
  }
  return {};
}

std::vector<UnknownVariable> unknown_variables() {
  std::vector<UnknownVariable> unknown;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (!text.starts_with(prefix)) continue;
    const std::string name(text.substr(0, text.find('=')));
    if (find_variable(name) == nullptr) unknown.push_back({name, nearest_variable(name)});
  }
  return unknown;
}

void warn_unknown_variables() {
  static std::atomic_flag warned = ATOMIC_FLAG_INIT;
  if (warned.test_and_set()) return;
  for (const auto& [name, nearest] : unknown_variables()) {
    if (nearest.empty()) {
      log(Level::warn, "{} is not a variable of Penstock; `penstock env --help` lists them", name);
    } else {
      log(Level::warn,
          "{} is not a variable of Penstock; did you mean {}? "
          "`penstock env --help` lists them",
          name, nearest);
    }
  }
}

}  // namespace penstock::base
