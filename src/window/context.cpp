#include "window/context.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/log.hpp"

namespace penstock::window {

namespace {

constexpr std::uint64_t look_interval_ns = 20'000'000;
constexpr std::size_t max_named = 8;

}  // namespace

Context::Context(pool::Pool& the_pool, Options the_options)
    : pool(the_pool),
      memory(the_pool.memory()),
      options(std::move(the_options)),
      layout(static_cast<std::uint32_t>(options.members.size())),
      wait_policy_(base::WaitPolicy::for_processes(std::min(ranks(), the_pool.local_processes()))),
      apart_(ranks()),
      next_look_ns_(ranks()) {
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    const bool here = rank == self() || pool.node_of(member(rank).token) == pool.node();
    apart_[rank] = memory.loads_may_be_stale() && !here;
  }
}

std::string Context::name(std::uint32_t rank) const {
  return fmt::format("rank {} of the window, {}", rank, pool.describe(member(rank).token));
}

Result<void> Context::find_dead(const char* what, const Missing& missing,
                                const std::function<void()>& look) const {
  const Missing before = missing;
  for (const std::uint32_t rank : before) {
    if (alive(rank)) continue;
    look();  // it may have done it as its last deed
    if (std::find(missing.begin(), missing.end(), rank) == missing.end()) continue;
    return gone(what, rank);
  }
  return {};
}

tl::unexpected<Error> Context::gone(const char* what, std::uint32_t rank) const {
  const auto records = pool.processes();
  const auto died = [&](std::uint32_t member_rank) {
    const std::uint64_t token = member(member_rank).token;
    return std::any_of(records.begin(), records.end(), [&](const pool::ProcessRecord& record) {
      return record.token() == token && record.attached && !record.alive;
    });
  };
  if (died(rank)) return fail(ErrorCode::peer_dead, "{}: {}, has died", what, name(rank));
  for (std::uint32_t other = 0; other < ranks(); ++other) {
    if (died(other))
      return fail(ErrorCode::peer_dead, "{}: {}, has died, and rank {} has left", what, name(other),
                  rank);
  }
  return fail(ErrorCode::peer_dead, "{}: {}, has died or left", what, name(rank));
}

bool Waiting::is_long() {
  constexpr std::uint64_t a_while_ns = 300'000'000;
  const std::uint64_t now = base::coarse_ns();
  if (since_ns_ == 0) since_ns_ = now;
  return now - since_ns_ >= a_while_ns;
}

void Waiting::tell(const std::string& what) {
  told_ = true;
  pool_.publish_activity(base::since_text(what, base::coarse_ns() - since_ns_));
}

Result<void> Context::wait(const char* what, Missing& missing, const std::function<void()>& look) {
  const auto dead_check = [&]() -> Result<void> { return find_dead(what, missing, look); };
  Waiting waiting(pool);
  const auto text = [&] {
    const std::string others =
        missing.size() > 1 ? fmt::format(" and {} others", missing.size() - 1) : "";
    return fmt::format("{}: waits for {}{}", what, pool.describe(member(missing.front()).token),
                       others);
  };
  for (;;) {
    base::Waiter waiter(what, 0, std::cref(dead_check), wait_policy_);
    for (;;) {
      look();
      if (missing.empty()) return {};
      idle();
      waiting.look(text);
      auto paused = waiter.pause();
      if (paused) continue;
      if (paused.error().code != ErrorCode::deadline) return paused;
      break;
    }
    // Whom it waits for may have a reason: it lives, and MPI knows no limit.
    std::string names;
    for (std::size_t i = 0; i < std::min(missing.size(), max_named); ++i)
      names += (i == 0 ? "" : "; ") + name(missing[i]);
    base::log(base::Level::warn, "{} waits on for {} of {} ranks: {}", what, missing.size(),
              ranks(), names);
  }
}

Result<Turn> Context::turn(const char* what, bool& taken) {
  if (!taken) return Turn(taken);
  Missing missing{self()};
  const auto look = [&] {
    if (!taken) missing.clear();
  };
  if (auto free = wait(what, missing, look); !free) return unexpected(free.error());
  return Turn(taken);
}

Result<void> Context::check_alive(std::uint32_t rank, const char* what) {
  const std::uint64_t now = base::now_ns();
  if (now < next_look_ns_[rank]) return {};
  next_look_ns_[rank] = now + look_interval_ns;
  if (alive(rank)) return {};
  next_look_ns_[rank] = 0;
  return gone(what, rank);
}

}  // namespace penstock::window
