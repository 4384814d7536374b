#include "model/machine.hpp"

#include <algorithm>

#include "base/format.hpp"

namespace penstock::model {

namespace {

/// Times that differ by less count as equal.
constexpr double least_seconds = 1e-15;

}  // namespace

Word Machine::add_word() {
  words_.emplace_back();
  return static_cast<Word>(words_.size() - 1);
}

std::int64_t Machine::add_turn() {
  turns_.emplace_back();
  return static_cast<std::int64_t>(turns_.size()) - 1;
}

void Machine::signal(Word word, std::uint64_t value, double after) {
  if (after <= 0) return raise(word, value);
  timers_.push(
      {.time = now_ + after, .order = order_++, .signals = true, .word = word, .value = value});
}

void Machine::raise(Word word, std::uint64_t value) {
  WordState& state = words_[word];
  if (value <= state.value) return;
  state.value = value;
  std::erase_if(state.waiters, [&](const auto& waiter) {
    if (waiter.first > value) return false;
    if (--lanes_[waiter.second].missing == 0) ready_.push_back(waiter.second);
    return true;
  });
}

/// Advances the lane until an action takes time.
void Machine::go_on(std::size_t lane) {
  LaneState& state = lanes_[lane];
  do {
    state.action = state.lane->next(*this);
    state.ended = state.action.kind == Action::Kind::end;
  } while (!state.ended && begin(lane));
}

/// Returns true if the action is done at once.
bool Machine::begin(std::size_t lane) {
  switch (lanes_[lane].action.kind) {
    case Action::Kind::transfer:
      return begin_transfer(lane);
    case Action::Kind::await:
      return begin_wait(lane);
    case Action::Kind::pause:
      if (lanes_[lane].action.seconds <= 0) return true;
      timers_.push({.time = now_ + lanes_[lane].action.seconds, .order = order_++, .lane = lane});
      return false;
    default:
      return false;
  }
}

bool Machine::begin_transfer(std::size_t lane) {
  const Action& action = lanes_[lane].action;
  if (action.uses.empty() || action.bytes <= 0) return true;
  if (action.turn >= 0) {
    Turn& turn = turns_[static_cast<std::size_t>(action.turn)];
    if (turn.taken) {
      turn.waiting.push_back(lane);
      return false;
    }
    turn.taken = true;
  }
  start(lane);
  return false;
}

void Machine::start(std::size_t lane) {
  const Flow flow = fluid_.start(lanes_[lane].action.bytes, lanes_[lane].action.uses);
  if (flow >= lane_of_.size()) lane_of_.resize(flow + 1);
  lane_of_[flow] = lane;
}

bool Machine::begin_wait(std::size_t lane) {
  LaneState& state = lanes_[lane];
  state.missing = 0;
  for (const Need& need : state.action.needs) {
    WordState& word = words_[need.word];
    if (word.value >= need.value) continue;
    word.waiters.push_back({need.value, lane});
    ++state.missing;
  }
  return state.missing == 0;
}

void Machine::finish(std::size_t lane) {
  ready_.push_back(lane);
  if (lanes_[lane].action.turn < 0) return;
  Turn& turn = turns_[static_cast<std::size_t>(lanes_[lane].action.turn)];
  turn.taken = !turn.waiting.empty();
  if (!turn.taken) return;
  start(turn.waiting.front());
  turn.waiting.pop_front();
}

void Machine::take_timers() {
  while (!timers_.empty() && timers_.top().time <= now_ + least_seconds) {
    const Timer timer = timers_.top();
    timers_.pop();
    if (timer.signals)
      raise(timer.word, timer.value);
    else
      ready_.push_back(timer.lane);
  }
}

Result<double> Machine::stuck() const {
  const auto still = [](const LaneState& state) { return !state.ended; };
  const auto first = std::find_if(lanes_.begin(), lanes_.end(), still);
  if (first == lanes_.end()) return now_;
  return fail(
      ErrorCode::deadline,
      "{} of {} lanes never end, the first of them is {}: a schedule waits for a word that no "
      "lane sends",
      std::count_if(lanes_.begin(), lanes_.end(), still), lanes_.size(), first->lane->name());
}

Result<double> Machine::run() {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) ready_.push_back(lane);
  for (;;) {
    while (!ready_.empty()) {
      const std::size_t lane = ready_.front();
      ready_.pop_front();
      go_on(lane);
    }
    const double flows = fluid_.until_next();
    const double timer = timers_.empty() ? never : std::max(0.0, timers_.top().time - now_);
    if (flows == never && timer == never) return stuck();
    const double step = std::min(flows, timer);
    now_ = timer <= flows ? std::max(now_, timers_.top().time) : now_ + step;
    finished_.clear();  // flows that begin now reuse these numbers
    for (const Flow flow : fluid_.advance(step)) finished_.push_back(lane_of_[flow]);
    for (const std::size_t lane : finished_) finish(lane);
    take_timers();
  }
}

}  // namespace penstock::model
