#include "offload/registration.hpp"

#include <array>
#include <map>
#include <mutex>

#include "base/clock.hpp"
#include "base/format.hpp"
#include "base/wait.hpp"

namespace penstock::offload {

namespace {

/// The words in use in this process's line, by pool token: a process may have attached to several
/// pools, and several threads may make communicators.
struct Words {
  std::mutex mutex;
  std::map<std::uint64_t, std::array<bool, asks_of_a_process>> used;

  static Words& all() {
    static Words words;
    return words;
  }
};

constexpr std::uint64_t answer_timeout_ns = 5'000'000'000;

}  // namespace

Result<std::shared_ptr<Registration>> Registration::ask(Serving serving, const Region& region) {
  pool::Pool& pool = serving.directory.pool();
  if (pool.slot() >= serving.directory.processes())
    return fail(ErrorCode::no_slots, "processes in slot {} and above cannot ask a switch",
                serving.directory.processes());
  std::uint32_t word = 0;
  {
    const std::lock_guard<std::mutex> guard(Words::all().mutex);
    auto& used = Words::all().used[pool.token()];
    while (word < asks_of_a_process && used[word]) ++word;
    if (word == asks_of_a_process)
      return fail(ErrorCode::no_slots,
                  "this process has made {} communicators that a switch serves, and there is room "
                  "for no more",
                  asks_of_a_process);
    used[word] = true;
  }
  const std::uint64_t before =
      pool.memory().observe_word(pool.base() + serving.directory.ask_line(pool.slot()) + word * 8);
  auto made = std::make_shared<Registration>(std::move(serving), region, word, Ask{before}.count());
  made->publish(Ask::of(region.offset(), made->count_));
  base::Waiter waiter("an answer of the switch", answer_timeout_ns);
  while (!made->all_answered()) {
    if (waiter.pause()) continue;
    made->why_ = "it has not answered in time";
    return made;
  }
  return made;
}

Registration::~Registration() {
  // A word whose ask is not withdrawn stays taken: the switch may still read it.
  if (!withdrawn_) return;
  const std::lock_guard<std::mutex> guard(Words::all().mutex);
  Words::all().used[serving_.directory.pool().token()][word_] = false;
}

void Registration::publish(const Ask& ask) {
  pool::Pool& pool = serving_.directory.pool();
  asked_ = ask;
  count_ = ask.count();
  const auto& memory = pool.memory();  // describe() left everything at the device
  memory.publish_word(pool.base() + serving_.directory.ask_line(pool.slot()) + word_ * 8, ask.word);
  // Before the claims are read: a switch reads the asks after it has taken its claim, so either it
  // finds this ask, or this process finds its claim.
  memory.full_fence();
}

Answer Registration::answer_of(std::uint32_t number) const {
  const pool::Pool& pool = serving_.directory.pool();
  const std::uint64_t word = pool.memory().observe_word(
      pool.base() + serving_.directory.answer_line(number, pool.slot()) + word_ * 8);
  if ((word & ~std::uint64_t{0xf}) != asked_.word) return Answer::none;
  return static_cast<Answer>(word & 0xf);
}

/// Whether a switch may still answer. One that has replaced the switch asked may have found the
/// ask; it then serves the region until it has answered the withdrawal.
bool Registration::may_answer(std::uint32_t number) const {
  const pool::Pool& pool = serving_.directory.pool();
  // This read comes first: only publish()'s fence precedes it, so that a test notices its absence.
  const Claim claim = withdrawing_ ? serving_.directory.claim(number).value_or(Claim{}) : Claim{};
  if (pool.alive(serving_.tokens[number])) return true;
  return claim.token != 0 && pool.alive(claim.token);
}

/// Decided by the switch's line in the region: two may have held the claim for a moment, and only
/// one of them has answered.
bool Registration::is_served_by(std::uint32_t number) const {
  const pool::Pool& pool = serving_.directory.pool();
  const auto member = observe_member(pool, region_, region_.switch_line(number));
  return member && member->token != 0 && pool.alive(member->token);
}

/// True when every switch has answered or is dead.
bool Registration::all_answered() {
  const pool::Pool& pool = serving_.directory.pool();
  served_ = true;
  for (std::uint32_t number = 0; number < serving_.tokens.size(); ++number) {
    const Answer answer = answer_of(number);
    if (answer == Answer::none && may_answer(number)) return served_ = false;
    if (withdrawing_ && is_served_by(number)) return served_ = false;
    if (answer == Answer::served || answer == Answer::gone) continue;
    served_ = false;
    why_ = fmt::format(
        "{} {}", pool.describe(serving_.tokens[number]),
        answer == Answer::none
            ? "has died"
            : (answer == Answer::no_room ? "has no room to join the job" : "has refused it"));
  }
  return true;
}

bool Registration::is_withdrawn() {
  if (withdrawn_) return true;
  // Repeated now and then, at growing intervals: a foreign process may have overwritten the word or
  // its answer, or the switch may have begun since.
  const std::uint64_t now = base::now_ns();
  if (!withdrawing_ || (now >= next_publish_ns_ && !all_answered())) {
    publish(Ask::of(0, count_));
    patience_ns_ *= 2;
    next_publish_ns_ = now + patience_ns_;
  }
  withdrawing_ = true;
  withdrawn_ = all_answered();
  served_ = false;
  return withdrawn_;
}

}  // namespace penstock::offload
