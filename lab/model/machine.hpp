// Runs programs on shared links: lanes that transfer, pause, tell and wait. An event simulation;
// events at the same time happen in the order of the lanes.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <queue>
#include <vector>

#include "base/status.hpp"
#include "model/fluid.hpp"

namespace penstock::model {

/// A number that lanes wait for, and that only grows.
using Word = std::uint32_t;
struct Need {
  Word word = 0;
  std::uint64_t value = 1;
};

/// The next action of a lane.
struct Action {
  enum class Kind : std::uint8_t { transfer, pause, await, end };
  Kind kind = Kind::end;
  double bytes = 0;              ///< transfer
  std::vector<Use> uses = {};    ///< transfer; none: it takes no time
  std::int64_t turn = -1;        ///< transfer: number of a queue that serves one transfer at a time
  double seconds = 0;            ///< pause
  std::vector<Need> needs = {};  ///< await: all of them
};

class Machine;

/// A sequence of actions: a rank's thread, or a stream of its GPU.
class Lane {
 public:
  virtual ~Lane() = default;
  /// Called when the previous action is done.
  virtual Action next(Machine& machine) = 0;
  /// Names the lane in the message about lanes that never end.
  virtual std::string name() const = 0;
};

class Machine {
 public:
  Fluid& fluid() { return fluid_; }
  Word add_word();
  /// Adds a queue for turns; queues are numbered from 0.
  std::int64_t add_turn();
  void add_lane(std::unique_ptr<Lane> lane) { lanes_.push_back({std::move(lane)}); }

  /// Runs until all lanes have ended, and returns the seconds that this took. Errors: deadline if
  /// some never end; it names one.
  Result<double> run();

  // For a lane's next():
  double now() const { return now_; }
  std::uint64_t value(Word word) const { return words_[word].value; }
  /// Raises the word to at least this value, now or `after` seconds later.
  void signal(Word word, std::uint64_t value, double after);

 private:
  struct LaneState {
    std::unique_ptr<Lane> lane;
    Action action = {};
    std::size_t missing = 0;  ///< needs that are not met
    bool ended = false;
  };
  struct WordState {
    std::uint64_t value = 0;
    std::vector<std::pair<std::uint64_t, std::size_t>> waiters = {};  ///< awaited value, lane
  };
  struct Turn {
    bool taken = false;
    std::deque<std::size_t> waiting = {};
  };
  /// The end of a lane's pause, or the time at which a word is told.
  struct Timer {
    double time = 0;
    std::uint64_t order = 0;
    bool signals = false;
    std::size_t lane = 0;
    Word word = 0;
    std::uint64_t value = 0;
    bool operator>(const Timer& other) const {
      return time != other.time ? time > other.time : order > other.order;
    }
  };
  void go_on(std::size_t lane);
  bool begin(std::size_t lane);
  bool begin_transfer(std::size_t lane);
  bool begin_wait(std::size_t lane);
  void start(std::size_t lane);
  void finish(std::size_t lane);
  void raise(Word word, std::uint64_t value);
  void take_timers();
  Result<double> stuck() const;

  Fluid fluid_;
  double now_ = 0;
  std::uint64_t order_ = 0;
  std::vector<LaneState> lanes_;
  std::vector<WordState> words_;
  std::vector<Turn> turns_;
  std::vector<std::size_t> lane_of_;   ///< by flow
  std::vector<std::size_t> finished_;  ///< lanes whose transfers are done
  std::deque<std::size_t> ready_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
};

}  // namespace penstock::model
