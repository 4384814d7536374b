#include "command.hpp"

#include <fmt/core.h>
#include <sys/vfs.h>
#include <time.h>
#include <CLI/CLI.hpp>

#include <cstdlib>
#include <iterator>

#include "base/env.hpp"
#include "base/exit_status.hpp"
#include "base/format.hpp"
#include "device/part.hpp"
#include "terminal.hpp"

namespace penstock::tools {

namespace {

std::string& last_message() {
  static std::string message;
  return message;
}

}  // namespace

const std::string& last_reported() {
  return last_message();
}

int report(const Error& error) {
  last_message() = error.message;
  fmt::print(stderr, "penstock: {} {}\n", coloured(Colour::red, "error:", stderr), error.message);
  return base::exit_status_of(error.code);
}

std::string counted(std::uint64_t count, std::string_view noun) {
  const bool hisses = noun.ends_with("s");
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : hisses ? "es" : "s");
}

std::string named_or_set(const std::string& named) {
  return named.empty() ? base::env_text("PENSTOCK_POOL") : named;
}

void add_json_option(CLI::App& command, bool& json) {
  command.add_flag("--json", json, "print the facts as JSON");
}

namespace {

/// CLI11's check: "" for valid values of PENSTOCK_TRUST_OWNER.
std::string check_trusted(const std::string& names) {
  for (std::size_t at = 0; at <= names.size();) {
    const std::size_t end = std::min(names.find(',', at), names.size());
    if (!device::can_be_trusted(names.substr(at, end - at))) {
      return fmt::format("'{}' is no user of this host: name a user, a :GROUP, or everybody",
                         names.substr(at, end - at));
    }
    at = end + 1;
  }
  return "";
}

}  // namespace

void add_trust_option(CLI::App& command) {
  CLI::Option* option = command.add_option_function<std::string>(
      "--trust-owner",
      [](const std::string& names) {
        const std::string before = base::env_text("PENSTOCK_TRUST_OWNER");
        ::setenv("PENSTOCK_TRUST_OWNER", (before.empty() ? names : before + "," + names).c_str(),
                 1);
      },
      "also use pools of this USER or :GROUP; everybody: also pools that anybody may "
      "write to");
  option->type_name("USER")->check(check_trusted);
}

void warn_of_owner(const std::string& spec) {
  if (auto trusted = device::check_owner(spec); !trusted)
    fmt::print(stderr, "penstock: {} {}\n", coloured(Colour::yellow, "warn:", stderr),
               trusted.error().message);
}

Result<void> check_use(const std::string& spec) {
  if (auto trusted = device::check_owner(spec); !trusted) return trusted;
  PENSTOCK_TRY(device::open_parts(spec, device::Access::write));
  return {};
}

std::string about(std::uint64_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return value < 10 ? fmt::format("{:.1f} {}", value, units[unit])
                    : fmt::format("{:.0f} {}", value, units[unit]);
}

std::string about_ns(double nanoseconds) {
  constexpr const char* units[] = {"ns", "µs", "ms", "s"};
  std::size_t unit = 0;
  while (nanoseconds >= 999.5 && unit + 1 < std::size(units)) {
    nanoseconds /= 1000;
    ++unit;
  }
  const int decimals = nanoseconds < 9.995 ? 2 : nanoseconds < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", nanoseconds, decimals, units[unit]);
}

std::string wall_text(std::uint64_t wall_ns) {
  const auto seconds = static_cast<time_t>(wall_ns / 1'000'000'000u);
  tm parts{};
  char text[32];
  if (!localtime_r(&seconds, &parts)) return "?";
  strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

namespace {

constexpr long tmpfs_magic = 0x01021994;

bool on_tmpfs(const std::string& path) {
  const auto slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  struct statfs fs {};
  return statfs(folder.c_str(), &fs) == 0 && fs.f_type == tmpfs_magic;
}

}  // namespace

Result<ModeChoice> choose_mode(std::string_view text, const std::string& spec) {
  if (text != "auto") {
    auto mode = coherence::parse_mode(text);
    if (!mode) {
      return fail(ErrorCode::invalid_argument,
                  "{}, or leave --mode out (unset PENSTOCK_MODE), or --mode auto",
                  mode.error().message);
    }
    if (*mode == coherence::Mode::simulated && !coherence::has_simulator()) {
      return fail(
          ErrorCode::unavailable,
          "this penstock was built without the simulator, so it has no simulated mode: build "
          "it with cmake -DPENSTOCK_SIMULATOR=ON, or leave --mode out (unset PENSTOCK_MODE)");
    }
    return ModeChoice{*mode, "as asked"};
  }
  auto parts = PENSTOCK_TRY(device::parse_spec(spec));
  for (const device::Part& part : parts) {
    if (device::is_device(part)) {
      return ModeChoice{coherence::Mode::software,
                        part.text +
                            " may be mapped by several hosts (--mode hardware where the "
                            "device keeps their caches coherent)"};
    }
    if (part.kind == device::Part::Kind::file && !on_tmpfs(part.path)) {
      return ModeChoice{
          coherence::Mode::software,
          part.text +
              " is a file that other hosts or machines might map too (--mode hardware where "
              "all processes that attach are on one host)"};
    }
  }
  return ModeChoice{coherence::Mode::hardware, "the pool lies in this host's own memory"};
}

Result<std::unique_ptr<pool::Pool>> observe(const std::string& spec) {
  pool::AttachOptions options;
  options.spec = spec;
  options.observer = true;
  return pool::Pool::attach(options);
}

Result<View> look_at(const std::string& spec) {
  Error refused;
  for (const bool observer : {true, false}) {
    pool::AttachOptions options;
    options.spec = spec;
    options.observer = observer;
    auto pool = PENSTOCK_TRY(pool::Pool::attach(options));
    auto arena = arena::Arena::open(*pool);
    if (arena) return View{std::move(pool), std::move(*arena)};
    refused = arena.error();
    // An observer may do everything except format the arena.
    if (refused.code != ErrorCode::invalid_argument) break;
  }
  return tl::unexpected(refused);
}

}  // namespace penstock::tools
