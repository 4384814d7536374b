// The one table of PENSTOCK_ variables. `penstock env --help`, docs/environment.md and the
// start-up check read it; code reads a variable only through here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.hpp"

namespace penstock::base {

/// The people or programs that set a variable.
enum class Audience : std::uint8_t {
  user,           ///< runs a program
  administrator,  ///< sets up the hosts and their pool
  tuning,         ///< measures; the defaults are right otherwise
  penstock,       ///< Penstock's commands, for their children
  tests,          ///< Penstock's tests; the names begin with PENSTOCK_SIM_
};
/// "users", "administrators", ...
const char* audience_name(Audience audience);

/// A number in a variable of the form NAME=VALUE,...
struct Item {
  const char* name;
  std::uint64_t least = 0, most = UINT64_MAX;
  std::uint64_t multiple = 1;  ///< the number is a multiple of it
  bool power_of_two = false;
};

struct Variable {
  const char* name;      ///< "PENSTOCK_POOL"
  const char* fallback;  ///< the default as text; "" for none
  const char* values;    ///< accepted: "SPEC", "software|hardware", "count", "ms", "bytes"
  Audience audience;
  const char* meaning;                         ///< one sentence
  std::uint64_t least = 0, most = UINT64_MAX;  ///< range of a number
  std::span<const Item> items = {};            ///< of NAME=VALUE,...; empty: others, or no items
};

/// All of them, by audience.
std::span<const Variable> variables();

/// Returns the value set, or the default. `name` must be in the table (checked in debug builds).
std::string env_text(std::string_view name);
/// The same as a number with optional K/M/G suffix (powers of 1024), within the variable's range.
/// Errors: names the variable, its value and the form needed.
Result<std::uint64_t> env_number(std::string_view name);
/// The same as a 32-bit count from 0; nullopt if it is not set.
Result<std::optional<std::uint32_t>> env_index(std::string_view name);
/// A number of a variable that has items. The last of a name counts; nullopt if it is not there or
/// empty. Errors: those of check_variables() for this variable.
Result<std::optional<std::uint64_t>> env_item(std::string_view name, std::string_view item);
bool env_is_set(std::string_view name);
/// True for "1", "true", "yes" and "on". All else is false: check_variables() refuses other words.
bool env_flag(std::string_view name);

/// Checks every variable that is set and takes numbers, 0|1 or one of some words, before any is
/// used. Returns the error of the first wrong one.
Result<void> check_variables();

/// Names set in the environment that start with PENSTOCK_ but are not in the table, each with the
/// nearest known name ("" when none is near).
struct UnknownVariable {
  std::string name;
  std::string nearest;
};
std::vector<UnknownVariable> unknown_variables();
/// Warns once per process about each of them.
void warn_unknown_variables();

/// "2G", "512M", "4096" -> bytes. Errors: names the text and the form needed.
Result<std::uint64_t> parse_bytes(std::string_view text);
/// 2147483648 -> "2 GiB", 1234 -> "1234 B".
std::string format_bytes(std::uint64_t bytes);

}  // namespace penstock::base
