#include "coll/plan_override.hpp"

#include <algorithm>
#include <charconv>

#include "base/env.hpp"
#include "base/format.hpp"

namespace penstock::coll {

namespace {

Error wrong(std::string_view key, std::string_view value, std::string_view needed) {
  return {ErrorCode::invalid_argument, fmt::format("{}={}: {}", key, value, needed)};
}

/// Parses one of the enum's named values, 0 to `last`.
template <class Enum>
Result<Enum> named(std::string_view key, std::string_view value, Enum last) {
  std::string names;
  for (std::size_t i = 0; i <= static_cast<std::size_t>(last); ++i) {
    const auto candidate = static_cast<Enum>(i);
    if (value == name_of(candidate)) return candidate;
    names += (i == 0 ? "" : ", ") + std::string(name_of(candidate));
  }
  return unexpected(wrong(key, value, "one of " + names + " is needed"));
}

Result<std::uint32_t> count(std::string_view key, std::string_view value, std::uint32_t most) {
  std::uint32_t number = 0;
  const char* const end = value.data() + value.size();
  const auto parsed = std::from_chars(value.data(), end, number);
  if (parsed.ec == std::errc() && parsed.ptr == end && number > 0 && number <= most) return number;
  return unexpected(wrong(key, value, fmt::format("a number from 1 to {} is needed", most)));
}

Result<bool> flag(std::string_view key, std::string_view value) {
  if (value == "0" || value == "1") return value == "1";
  return unexpected(wrong(key, value, "0 or 1 is needed"));
}

Result<void> take(PlanOverride& taken, std::string_view key, std::string_view value) {
  if (key == "algorithm") {
    taken.algorithm = PENSTOCK_TRY(named(key, value, Algorithm::leaders));
  } else if (key == "variant") {
    taken.variant = PENSTOCK_TRY(named(key, value, Variant::naive));
  } else if (key == "turns") {
    taken.turns = PENSTOCK_TRY(flag(key, value));
  } else if (key == "chunks") {
    taken.chunks = PENSTOCK_TRY(count(key, value, 1 << 20));
  } else if (key == "devices") {
    taken.devices = PENSTOCK_TRY(count(key, value, 64));
  } else if (key == "chunk") {
    const auto bytes = base::parse_bytes(value);
    if (!bytes || *bytes < 64) return unexpected(wrong(key, value, "64 bytes or more are needed"));
    taken.chunk_bytes = *bytes;
  } else if (key == "scratch") {
    const auto bytes = base::parse_bytes(value);
    if (!bytes || *bytes == 0)
      return unexpected(wrong(key, value, "a number of bytes is needed, such as 256K"));
    taken.scratch_from = *bytes;
  } else if (key == "form") {
    taken.slots_only = value == "slots";
    if (value != "slots" && value != "auto")
      return unexpected(wrong(key, value, "auto or slots is needed"));
  } else {
    return unexpected(wrong(key, value,
                            "the names are algorithm, variant, chunk, chunks, turns, scratch, "
                            "form, devices"));
  }
  return {};
}

}  // namespace

Plan PlanOverride::applied_to(const Plan& plan, const Problem& problem, bool nodes) const {
  Plan changed = plan;
  changed.eager = plan.eager && !slots_only;
  if (changed.eager) return changed;
  changed.variant = variant.value_or(plan.variant);
  changed.turns = turns.value_or(plan.turns);
  if (chunks != 0 || chunk_bytes != 0) changed.chunks = chunks;
  if (chunk_bytes != 0) changed.slot_bytes = std::min(plan.slot_bytes, chunk_bytes);
  if (scratch_from != 0) changed.scratch_from = scratch_from;
  if (algorithm && has_algorithm(problem.collective, *algorithm, nodes))
    changed.algorithm = *algorithm;
  if (changed.variant != Variant::all) changed.algorithm = Algorithm::one_shot;
  return changed;
}

Result<PlanOverride> parse_plan_override(std::string_view text) {
  PlanOverride taken;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), item.size() + 1));
    const std::size_t equals = item.find('=');
    if (equals == std::string_view::npos)
      return fail(ErrorCode::invalid_argument,
                  "'{}': NAME=VALUE,... is needed, such as variant=all,chunk=64K", item);
    PENSTOCK_TRY(take(taken, item.substr(0, equals), item.substr(equals + 1)));
  }
  return taken;
}

}  // namespace penstock::coll
