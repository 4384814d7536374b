#include "group/group.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/pace.hpp"
#include "group/lives.hpp"
#include "pool/members.hpp"

namespace penstock::group {

namespace {

constexpr std::uint64_t look_interval_ns = 20'000'000;
constexpr std::size_t max_named = 8;

/// The awaited ranks themselves, some at a time: all of them over time.
class InTurn final : public Culprits {
 public:
  explicit InTurn(const Missing& missing) : missing_(missing) {}
  Missing some(bool to_name) override {
    if (to_name || missing_.size() <= lives_at_once) return missing_;
    Missing found;
    for (std::size_t i = 0; i < lives_at_once; ++i)
      found.push_back(missing_[turn_++ % missing_.size()]);
    return found;
  }
  bool is_still(std::uint32_t rank) override {
    return std::find(missing_.begin(), missing_.end(), rank) != missing_.end();
  }

 private:
  const Missing& missing_;
  std::size_t turn_ = 0;
};

}  // namespace

Group::Group(pool::Pool& the_pool, Options options)
    : pool(the_pool),
      memory(the_pool.memory()),
      options_(std::move(options)),
      wait_policy_(
          base::WaitPolicy::for_processes(std::min(ranks(), the_pool.members().local_processes()))),
      nodes_(ranks()),
      apart_(ranks()),
      next_look_ns_(ranks()) {
  // A rank that has left the table of processes counts as a node of its own.
  constexpr std::uint32_t first_unknown = 1u << 31;
  const auto found = options_.nodes.empty() ? pool.members().nodes_of(options_.tokens)
                                            : std::vector<std::optional<std::uint32_t>>();
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    nodes_[rank] = !options_.nodes.empty() ? options_.nodes[rank]
                   : rank == self()        ? pool.node()
                                           : found[rank].value_or(first_unknown + rank);
  }
  for (std::uint32_t rank = 0; rank < ranks(); ++rank)
    apart_[rank] = memory.loads_may_be_stale() && nodes_[rank] != nodes_[self()];
}

Missing Group::others() const {
  Missing others;
  for (std::uint32_t rank = 0; rank < ranks(); ++rank) {
    if (rank != self()) others.push_back(rank);
  }
  return others;
}

bool Group::any_apart() const {
  return std::find(apart_.begin(), apart_.end(), true) != apart_.end();
}

Result<void> Group::check_rank(std::uint32_t rank) const {
  if (rank < ranks()) return {};
  return fail(ErrorCode::invalid_argument, "rank {} of a {} of {} ranks", rank, options_.noun,
              ranks());
}

std::string Group::name(std::uint32_t rank) const {
  if (has_stand_in(rank)) return fmt::format("{}, {}", stand_in_noun_, pool.describe(stand_in_));
  return fmt::format("rank {} of the {}, {}", rank, options_.noun, pool.describe(token(rank)));
}

Result<void> Group::find_dead(const char* what, const Missing& missing,
                              const std::function<void()>& look, Culprits* culprits) const {
  for (const std::uint32_t rank : culprits->some(false)) {
    if (alive(rank)) continue;
    look();  // the rank may have done it just before it ended
    if (missing.empty()) return {};
    if (culprits->is_still(rank)) return gone(what, rank);
  }
  return {};
}

tl::unexpected<Error> Group::gone(const char* what, std::uint32_t rank) const {
  const auto died = [&](std::uint32_t member) { return pool.members().died(token(member)); };
  if (died(rank)) return fail(ErrorCode::peer_dead, "{}: {}, has died", what, name(rank));
  for (std::uint32_t other = 0; other < ranks(); ++other) {
    if (died(other))
      return fail(ErrorCode::peer_dead, "{}: {}, has died, and rank {} has left", what, name(other),
                  rank);
  }
  return fail(ErrorCode::peer_dead, "{}: {}, has died or left", what, name(rank));
}

std::string Group::names(const Missing& missing) const {
  std::string names;
  for (std::size_t i = 0; i < std::min(missing.size(), max_named); ++i)
    names += (i == 0 ? "" : "; ") + name(missing[i]);
  if (missing.size() > max_named) names += fmt::format("; {} others", missing.size() - max_named);
  return names;
}

std::string Group::awaited(const Missing& missing) const {
  if (is_another(missing)) return name(self());
  return fmt::format("{} of {} ranks: {}", missing.size(), ranks(), names(missing));
}

std::string Group::waits_for(const char* what, const Missing& missing) const {
  const std::string others =
      missing.size() > 1 ? fmt::format(" and {} others", missing.size() - 1) : "";
  const std::uint32_t first = missing.front();
  return fmt::format("{}: waits for {}{}", what,
                     has_stand_in(first) ? name(first) : pool.describe(token(first)), others);
}

Result<void> Group::wait(const char* what, Missing& missing, const std::function<void()>& look,
                         Culprits* culprits) {
  InTurn missing_themselves(missing);
  if (culprits == nullptr) culprits = &missing_themselves;
  const auto dead_check = [&] { return find_dead(what, missing, look, culprits); };
  const auto to_name = [&] {
    Missing those = culprits->some(true);
    return those.empty() ? missing : those;
  };
  Waiting waiting(pool);
  const auto text = [&] { return waits_for(what, to_name()); };
  base::Pace pace;
  for (;;) {
    base::Waiter waiter(what, 0, std::cref(dead_check), wait_policy_);
    for (;;) {
      if (pace.due()) {
        const std::uint64_t read = memory.device_reads();
        look();
        if (missing.empty()) return {};
        pace.looked(memory.device_reads() - read);
      }
      idle();
      waiting.look(text);
      auto paused = waiter.pause();
      if (paused) continue;
      if (paused.error().code != ErrorCode::deadline) return paused;
      break;
    }
    // They live, so the wait goes on: the caller's interface, such as MPI's, has no time limit.
    base::log(base::Level::warn, "{} waits on for {}", what, awaited(to_name()));
  }
}

Result<Turn> Group::turn(const char* what, bool& taken) {
  if (!taken) return Turn(taken);
  Missing missing{self()};
  const auto look = [&] {
    if (!taken) missing.clear();
  };
  PENSTOCK_TRY(wait(what, missing, look));
  return Turn(taken);
}

Result<void> Group::check_alive(std::uint32_t rank, const char* what) {
  const std::uint64_t now = base::now_ns();
  if (now < next_look_ns_[rank]) return {};
  next_look_ns_[rank] = now + look_interval_ns;
  auto living = check_alive_now(rank, what);
  if (!living) next_look_ns_[rank] = 0;
  return living;
}

Result<void> Group::check_alive_now(std::uint32_t rank, const char* what) const {
  if (alive(rank)) return {};
  return gone(what, rank);
}

}  // namespace penstock::group
