#include "collective_choice.hpp"

#include <string>
#include <string_view>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"

namespace penstock::mpi {

namespace {

constexpr CollectiveCall taken_calls[] = {
#define PENSTOCK_COLLECTIVE(name, lower, n, kinds)
#define PENSTOCK_COUNTED(name, lower, n, kinds)
#define PENSTOCK_IN_POOL(name, lower, n, kinds) CollectiveCall::lower,
#define PENSTOCK_COUNTED_IN_POOL(name, lower, n, kinds) CollectiveCall::lower,
#include "collective_table.inc"
#undef PENSTOCK_COLLECTIVE
#undef PENSTOCK_COUNTED
};

/// The upper half of the bits is for nonblocking calls.
constexpr unsigned half = 32;
constexpr std::uint64_t lower_half = 0xffffffffull, upper_half = lower_half << half;

constexpr std::uint64_t bit_of(CollectiveCall call, Form form = Form::blocking) {
  return 1ull << (static_cast<unsigned>(call) + (form == Form::blocking ? 0 : half));
}

constexpr std::uint64_t bits_of_taken() {
  std::uint64_t bits = 0;
  for (const CollectiveCall call : taken_calls) bits |= bit_of(call);
  return bits;
}

std::string_view name_of(CollectiveCall call) {
  constexpr std::string_view names[] = {
#define PENSTOCK_COLLECTIVE(name, lower, n, kinds) #lower,
#define PENSTOCK_COUNTED(name, lower, n, kinds) #lower,
#include "collective_table.inc"
#undef PENSTOCK_COLLECTIVE
#undef PENSTOCK_COUNTED
  };
  return names[static_cast<std::size_t>(call)];
}

std::string all_names() {
  std::string names;
  for (const CollectiveCall call : taken_calls)
    names += (names.empty() ? "" : ", ") + std::string(name_of(call));
  return names;
}

/// The calls that a name in PENSTOCK_COLL stands for. "allreduce": all its forms; "iallreduce": its
/// nonblocking forms; "nonblocking": all nonblocking calls.
std::uint64_t calls_named(std::string_view name) {
  if (name == "all") return ~0ull;
  if (name == "nonblocking") return upper_half;
  for (const CollectiveCall call : taken_calls) {
    const std::uint64_t bits = bit_of(call) | bit_of(call, Form::nonblocking);
    if (name == name_of(call)) return bits;
    if (name.starts_with('i') && name.substr(1) == name_of(call)) return bits & upper_half;
  }
  return 0;
}

/// Parses PENSTOCK_COLL: "all", "none", or names separated by commas; a leading "-" excludes a
/// name.
std::uint64_t wanted_calls() {
  const std::string text = base::env_text("PENSTOCK_COLL");
  std::uint64_t wanted = 0, unwanted = 0;
  bool only_some = false;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    std::string_view name(text.data() + at, end - at);
    at = end + 1;
    const bool without = name.starts_with('-');
    if (without) name.remove_prefix(1);
    const std::uint64_t named = calls_named(name);
    only_some = only_some || !without;
    (without ? unwanted : wanted) |= named;
    if (named == 0 && name != "none")
      base::log(base::Level::warn,
                "PENSTOCK_COLL names '{}': all, none, or names such as allreduce,bcast or "
                "-alltoall are needed, of: {}; with an i before, such as -iallreduce, or "
                "-nonblocking, for calls that do not block",
                name, all_names());
  }
  return (only_some ? wanted : ~0ull) & ~unwanted & all_calls();
}

}  // namespace

bool is_taken(CollectiveCall call) {
  constexpr std::uint64_t taken = bits_of_taken();
  return (taken & bit_of(call)) != 0;
}

std::uint64_t all_calls() {
  return bits_of_taken() | bits_of_taken() << half;
}

std::uint64_t calls_in_pool() {
  static const std::uint64_t calls = wanted_calls();
  return calls;
}

bool is_wanted(CollectiveCall call, Form form) {
  return (calls_in_pool() & bit_of(call, form)) != 0;
}

std::string calls_text(std::uint64_t calls) {
  if (calls == all_calls()) return "all";
  std::string names;
  for (const Form form : {Form::blocking, Form::nonblocking}) {
    for (const CollectiveCall call : taken_calls) {
      if ((calls & bit_of(call, form)) == 0) continue;
      names += (names.empty() ? "" : ", ") + std::string(form == Form::blocking ? "" : "i") +
               std::string(name_of(call));
    }
  }
  return names.empty() ? "none" : names;
}

}  // namespace penstock::mpi
