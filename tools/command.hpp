// Shared by the subcommands. Each has its own file and registers itself with the parser.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "arena/arena.hpp"
#include "base/format.hpp"
#include "base/status.hpp"
#include "coherence/coherence.hpp"
#include "pool/pool.hpp"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace penstock::tools {

inline constexpr int exit_ok = 0;
inline constexpr int exit_error = 1;
inline constexpr int exit_usage = 2;

/// Runs the chosen subcommand after parsing; returns the exit status.
using Action = std::function<int()>;

void add_pool_command(CLI::App& app, Action& chosen);
void add_doctor_command(CLI::App& app, Action& chosen);
void add_coherence_command(CLI::App& doctor, Action& chosen);
void add_run_command(CLI::App& app, Action& chosen);
void add_env_command(CLI::App& app, Action& chosen);
void add_ps_command(CLI::App& app, Action& chosen);
void add_bench_command(CLI::App& app, Action& chosen);
/// Also adds the hidden command by which the build writes the man pages.
void add_completion_command(CLI::App& app, Action& chosen);

// The commands of lab/; a build without PENSTOCK_LAB only says that it lacks them (no_lab.cpp).
void add_switch_command(CLI::App& app, Action& chosen);
void add_measurements(CLI::App& bench, Action& chosen);
void add_tune_command(CLI::App& bench, Action& chosen);
void add_model_command(CLI::App& app, Action& chosen);
void add_scaling_command(CLI::App& model, Action& chosen);
void add_timeline_command(CLI::App& app, Action& chosen);

/// Prints "penstock: error: ..." and returns the exit status: exit_usage for invalid_argument, else
/// exit_error.
int report(const Error& error);

/// The message of the last reported error; "" if there was none.
const std::string& last_reported();

using base::shell_quote;
/// "1 node", "2 nodes", "2 processes".
std::string counted(std::uint64_t count, std::string_view noun);
/// 2'000'000'000 -> "1.9 GiB": for people, rounded.
std::string about(std::uint64_t bytes);
/// 1'250.0 -> "1.25 µs": for people, three digits.
std::string about_ns(double nanoseconds);
/// Nanoseconds since 1970 as "2026-11-20 10:00:00" in local time.
std::string wall_text(std::uint64_t wall_ns);

/// The mode that `auto` selects, with the reason in words.
struct ModeChoice {
  coherence::Mode mode = coherence::Mode::software;
  std::string reason;
};
/// `text` is software, hardware, uncached or auto. Auto selects hardware only if all processes that
/// can attach to SPEC are provably on one host.
Result<ModeChoice> choose_mode(std::string_view text, const std::string& spec);

/// Returns the named pool, else that of PENSTOCK_POOL; "" if there is neither.
std::string named_or_set(const std::string& named);
/// Adds --json, whose output has the shapes that docs/command-line.md promises.
void add_json_option(CLI::App& command, bool& json);

/// Adds an option that extends PENSTOCK_TRUST_OWNER, for this command and its children.
void add_trust_option(CLI::App& command);

/// Warns on stderr if a job that uses the pool would be told that its owner is not trusted.
void warn_of_owner(const std::string& spec);

/// Checks that a job of this user may use the pool: its owner is trusted, and the pool is writable.
Result<void> check_use(const std::string& spec);

/// Attaches without a slot, as an observer, which changes nothing.
Result<std::unique_ptr<pool::Pool>> observe(const std::string& spec);

/// A look at a pool from outside: it takes no process slot and changes nothing, except that it
/// formats the arena of a pool that was never used.
struct View {
  std::unique_ptr<pool::Pool> pool;
  std::unique_ptr<arena::Arena> arena;
};
Result<View> look_at(const std::string& spec);

}  // namespace penstock::tools
