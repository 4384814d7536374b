#include "session.hpp"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <mutex>

#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"

namespace penstock::plugin {

namespace {

constexpr int exit_config = 78;  // EX_CONFIG of sysexits.h

std::mutex session_mutex;
std::weak_ptr<Session> current_session;

Result<std::shared_ptr<Session>> attach(const std::string& spec) {
  auto session = std::make_shared<Session>();
  session->spec = spec;
  session->launch = PENSTOCK_TRY(read_launch(process_sources()));

  pool::AttachOptions options;
  options.spec = spec;
  options.rank = session->launch.rank;
  options.job = session->launch.job;
  options.emulated_node = session->launch.emulated_node;
  if (const std::int32_t seat = session->launch.local_rank; seat >= 0)
    options.seat = static_cast<std::uint32_t>(seat);
  options.mode = PENSTOCK_TRY(coherence::mode_from_environment());

  session->pool = PENSTOCK_TRY(pool::Pool::attach(options));
  session->arena = PENSTOCK_TRY(arena::Arena::open(*session->pool));
  return session;
}

}  // namespace

Result<std::shared_ptr<Session>> open_session() {
  const std::lock_guard<std::mutex> guard(session_mutex);
  const std::string spec = base::env_text("PENSTOCK_POOL");
  if (auto session = current_session.lock();
      session != nullptr && session->spec == spec && session->pool->attached_here()) {
    return session;
  }
  auto session = attach(spec);
  if (session) current_session = *session;
  return session;
}

Result<PoolView> look_at_pool() {
  base::warn_unknown_variables();
  PoolView view;
  view.spec = base::env_text("PENSTOCK_POOL");
  view.configured = !view.spec.empty();
  if (!view.configured) return view;
  PENSTOCK_TRY(base::check_variables());
  auto info = PENSTOCK_TRY(pool::inspect(view.spec));
  view.id = info.id;
  auto mode = coherence::mode_from_environment();
  if (!mode) return unexpected(mode.error());
  if (*mode && **mode != info.mode) {
    return fail(ErrorCode::mismatch,
                "pool {} is in {} mode but PENSTOCK_MODE asks for {}: unset PENSTOCK_MODE, or make "
                "another pool with 'penstock pool create {} --mode {}'",
                view.spec, coherence::mode_name(info.mode), coherence::mode_name(**mode),
                base::shell_quote(view.spec), coherence::mode_name(**mode));
  }
  return view;
}

void end_process_if_required(const std::string& why) {
  if (!base::env_flag("PENSTOCK_REQUIRE")) return;
  const std::string line = fmt::format(
      "penstock: error: PENSTOCK_REQUIRE is set and this process cannot use the pool: {}\n", why);
  std::fflush(nullptr);
  if (::write(STDERR_FILENO, line.data(), line.size()) < 0) {
    // No process listens; the exit status still reports it.
  }
  ::_exit(exit_config);
}

void print_summary(const Session& session) {
  static std::atomic<bool> printed{false};
  if (session.launch.rank > 0 || !base::env_flag("PENSTOCK_SUMMARY")) return;
  if (printed.exchange(true)) return;
  const std::string rank =
      session.launch.rank >= 0 ? fmt::format("rank {}", session.launch.rank) : "a process";
  const pool::Info& info = session.pool->info();
  fmt::print(stderr, "penstock: {} of job {} uses pool {} ({}, {} mode), provider penstock\n", rank,
             session.launch.job, session.spec, base::format_bytes(info.bytes),
             coherence::mode_name(info.mode));
}

}  // namespace penstock::plugin
