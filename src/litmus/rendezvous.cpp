#include "litmus/rendezvous.hpp"

#include "base/format.hpp"
#include "base/wait.hpp"
#include "litmus/layout.hpp"
#include "litmus/rounds.hpp"
#include "pool/members.hpp"

namespace penstock::litmus {
namespace {

/// Operations that flush in every mode: the test finds out whether the memory needs that.
Result<coherence::Memory> memory_of(const pool::Pool& pool) {
  const coherence::Memory& own = pool.memory();
  if (own.loads_may_be_stale()) return own;
  return coherence::bind(coherence::Mode::software);
}

class Rendezvous {
 public:
  Rendezvous(arena::Arena& arena, const coherence::Memory& memory, const Options& options)
      : arena_(arena), pool_(arena.pool()), memory_(memory), options_(options) {}
  ~Rendezvous() {
    // The first process made it. Other processes' copies on this node are not dirty.
    if (side_ == 0) (void)arena_.destroy(object_);
  }
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  Result<void> find_seats();
  Result<Outcome> play();

 private:
  std::byte* seat(std::uint32_t side) const {
    return object_.data + seats_at + side * sizeof(SeatLine);
  }
  SeatLine look(std::uint32_t side) const {
    SeatLine line;
    memory_.observe_line(&line, seat(side));
    return line;
  }
  bool taken(const SeatLine& line) const { return line.magic == seat_magic && line.token != 0; }
  void take(std::uint32_t side);
  Result<bool> try_first();
  Result<bool> try_second();
  bool second_came();
  Result<void> await_second();
  Result<bool> give_up();
  Result<void> other_living() const;
  Result<void> describe(Outcome& outcome) const;

  arena::Arena& arena_;
  pool::Pool& pool_;
  const coherence::Memory& memory_;
  const Options& options_;
  arena::Object object_;
  std::uint32_t side_ = sides;
  std::uint64_t tokens_[sides] = {};
  std::uint64_t rounds_ = 0;
};

void Rendezvous::take(std::uint32_t side) {
  SeatLine line{};
  line.magic = seat_magic;
  line.token = pool_.token();
  line.rounds = rounds_;
  memory_.publish_line(seat(side), &line);
  memory_.store_fence();
  side_ = side;
  tokens_[side] = line.token;
}

Result<bool> Rendezvous::try_first() {
  auto made = arena_.create(object_name, object_bytes, {.lifetime = arena::Lifetime::process});
  if (!made) {
    if (made.error().code == ErrorCode::already_exists) return false;
    return unexpected(made.error());
  }
  object_ = *made;
  // In hardware mode its zeros may still be in this node's caches only.
  memory_.write_back(object_.data, object_bytes);
  memory_.store_fence();
  rounds_ = options_.rounds;
  take(0);
  return true;
}

Result<bool> Rendezvous::try_second() {
  auto found = arena_.open(object_name);
  if (!found) {
    if (found.error().code == ErrorCode::not_found) return false;
    return unexpected(found.error());
  }
  if (found->bytes != object_bytes) {
    return fail(ErrorCode::mismatch,
                "object {} of the pool has {} bytes, a litmus test of this version {}: another "
                "version runs one; use the same on both hosts",
                object_name, found->bytes, object_bytes);
  }
  object_ = *found;
  // Under the lock, so that a third process finds the seat taken.
  const auto guard = PENSTOCK_TRY(pool_.lock(options_.timeout_ns));
  const SeatLine first = look(0), second = look(1);
  if (!taken(first) || !pool_.alive(first.token)) return false;  // not yet there, or left
  if (taken(second)) {
    if (!pool_.alive(second.token)) return false;
    return fail(ErrorCode::unavailable,
                "{} and {} test this pool already; wait until they are done",
                pool_.describe(first.token), pool_.describe(second.token));
  }
  if (first.rounds == 0 || first.rounds > max_rounds) {
    return fail(ErrorCode::wrong_format, "object {} asks for {} rounds, at most {} are possible",
                object_name, first.rounds, max_rounds);
  }
  rounds_ = first.rounds;
  tokens_[0] = first.token;
  take(1);
  return true;
}

Result<void> Rendezvous::find_seats() {
  // Objects of dead processes block the name; that of a living first side is kept.
  const auto free_dead = [this]() -> Result<void> {
    auto freed = arena_.collect();
    return freed ? Result<void>{} : unexpected(freed.error());
  };
  base::Waiter waiter("a place at the litmus test", options_.timeout_ns, free_dead);
  for (;;) {
    auto first = PENSTOCK_TRY(try_first());
    if (first) return await_second();
    auto second = PENSTOCK_TRY(try_second());
    if (second) return {};
    if (auto paused = waiter.pause(); !paused) return paused;
  }
}

bool Rendezvous::second_came() {
  const SeatLine second = look(1);
  if (taken(second)) tokens_[1] = second.token;
  return taken(second);
}

Result<void> Rendezvous::await_second() {
  if (options_.alone) options_.alone();
  base::Waiter waiter("the other side of the litmus test to come", options_.timeout_ns);
  while (!second_came()) {
    auto paused = waiter.pause();
    if (paused) continue;
    auto gave_up = PENSTOCK_TRY(give_up());
    if (gave_up) return paused;
  }
  return {};
}

/// Under the lock, so that no process joins one that has left. Returns false if another process has
/// just arrived.
Result<bool> Rendezvous::give_up() {
  const auto guard = PENSTOCK_TRY(pool_.lock());
  if (second_came()) return false;
  const SeatLine empty_seat{};
  memory_.publish_line(seat(0), &empty_seat);  // at the device when the lock is released
  return true;
}

Result<void> Rendezvous::other_living() const {
  const std::uint64_t other = tokens_[1 - side_];
  if (pool_.alive(other)) return {};
  return fail(ErrorCode::peer_dead, "{} died or gave up; run it again on both hosts",
              pool_.describe(other));
}

Result<void> Rendezvous::describe(Outcome& outcome) const {
  for (std::uint32_t side = 0; side < sides; ++side) {
    bool found = false;
    for (const pool::ProcessRecord& record : pool_.members().processes()) {
      if (record.token() != tokens_[side]) continue;
      outcome.who[side] = record;
      found = true;
    }
    if (!found) {
      return fail(ErrorCode::peer_dead,
                  "the litmus test met a process that is not in the pool's table");
    }
  }
  outcome.same_host = outcome.who[0].boot_id == outcome.who[1].boot_id;
  outcome.same_node = outcome.who[0].node == outcome.who[1].node;
  return {};
}

Result<Outcome> Rendezvous::play() {
  Outcome outcome;
  outcome.self = side_;
  PENSTOCK_TRY(describe(outcome));
  outcome.report.rounds = rounds_;
  if (options_.started) options_.started(outcome);
  auto report = run_rounds({.memory = memory_,
                            .lines = object_.data,
                            .self = side_,
                            .rounds = rounds_,
                            .timeout_ns = options_.timeout_ns,
                            .other_living = [this] { return other_living(); }});
  if (!report) {
    // Destroys the object if the first side has died.
    if (report.error().code == ErrorCode::peer_dead) (void)arena_.collect();
    return unexpected(report.error());
  }
  outcome.report = *report;
  return outcome;
}

}  // namespace

Result<Outcome> run(arena::Arena& arena, const Options& options) {
  if (options.rounds == 0 || options.rounds > max_rounds) {
    return fail(ErrorCode::invalid_argument, "{} rounds were asked for; 1 to {} are possible",
                options.rounds, max_rounds);
  }
  auto memory = PENSTOCK_TRY(memory_of(arena.pool()));
  Rendezvous rendezvous(arena, memory, options);
  PENSTOCK_TRY(rendezvous.find_seats());
  return rendezvous.play();
}

}  // namespace penstock::litmus
