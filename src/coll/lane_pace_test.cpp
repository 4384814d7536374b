// Two lanes of a call in virtual time: how long the thread is awake, and how late it is.
#include "coll/lane_pace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace penstock::coll {
namespace {

constexpr std::array lanes{Lane::write, Lane::read};

/// A call of `chunks` chunks a lane, as LaneRun makes it: a wait for others, then moves.
struct Course {
  std::uint64_t chunks = 64, bytes = 2 << 20;
  std::uint64_t move_ns = 42'000;  ///< of a chunk
  std::uint64_t others_ns = 0;     ///< a chunk of the others comes so often
  std::uint64_t first_ns = 0;      ///< the first moves, and the others' first chunk, are so late
  std::uint64_t read_late_ns = 0;  ///< the read lane's first chunk comes later by this
  std::uint64_t hiccup = ~0ull, hiccup_ns = 0;  ///< this chunk takes longer
};

struct Spent {
  std::uint64_t awake_ns = 0, all_ns = 0, sleeps = 0, longest_sleep_ns = 0;
  std::uint64_t shortest_sleep_ns = ~0ull;
};

class Host {
 public:
  explicit Host(std::uint64_t oversleeps_ns = 4'000) : oversleeps_ns_(oversleeps_ns) {}
  void set_timer(std::uint64_t oversleeps_ns) { oversleeps_ns_ = oversleeps_ns; }

  /// Carries out a call. The pace remembers the times of its chunks for the next one.
  Spent run(const Course& course, bool sleeps = true) {
    course_ = course;
    spent_ = {};
    begin_ns_ = now_ns_;
    at_ = {};
    pace_.begin(sleeps);
    for (;;) {
      spent_.awake_ns += look_ns;
      now_ns_ += look_ns;
      for (const Lane lane : lanes) look(lane);
      if (at(Lane::write).chunk == course.chunks && at(Lane::read).chunk == course.chunks) break;
      pace_.rest();
    }
    pace_.end_call();
    spent_.all_ns = now_ns_ - begin_ns_;
    return spent_;
  }

 private:
  static constexpr std::uint64_t look_ns = 400;
  struct At {
    std::uint64_t chunk = 0;
    bool moves = false;
    std::uint64_t done_ns = 0;
  };
  At& at(Lane lane) { return at_[static_cast<std::size_t>(lane)]; }

  void look(Lane lane) {
    At& my = at(lane);
    while (my.chunk < course_.chunks) {
      if (!my.moves) {
        const std::uint64_t late =
            course_.first_ns + (lane == Lane::read ? course_.read_late_ns : 0);
        if (now_ns_ < begin_ns_ + late + my.chunk * course_.others_ns) return;
        my.moves = true;
        my.done_ns = now_ns_ + course_.move_ns + (my.chunk == 0 ? course_.first_ns : 0) +
                     (my.chunk == course_.hiccup ? course_.hiccup_ns : 0);
        pace_.move(lane, course_.bytes);
      }
      if (now_ns_ < my.done_ns) return;
      my.moves = false;
      ++my.chunk < course_.chunks ? pace_.wait(lane) : pace_.end(lane);
    }
  }

  std::uint64_t now_ns_ = 1'000'000'000, begin_ns_ = 0, oversleeps_ns_;
  Course course_;
  Spent spent_;
  std::array<At, lane_count> at_;
  LanePace pace_{{[this] { return now_ns_; },
                  [this](std::uint64_t ns) {
                    now_ns_ += ns + oversleeps_ns_;
                    ++spent_.sleeps;
                    spent_.longest_sleep_ns = std::max(spent_.longest_sleep_ns, ns);
                    spent_.shortest_sleep_ns = std::min(spent_.shortest_sleep_ns, ns);
                  }}};
};

/// The same call by a thread that only polls.
Spent polled(const Course& course) {
  Host host;
  return host.run(course, false);
}

/// Two calls: the first one has taught the pace how long a chunk takes.
Spent second(Host& host, const Course& course) {
  (void)host.run(course);
  return host.run(course);
}

TEST(LanePace, IsAwakeAFifthOfALongCall) {
  for (const std::uint64_t ns : {20'000u, 42'000u, 150'000u, 1'000'000u}) {
    const Course courses[] = {{.move_ns = ns},
                              {.move_ns = ns, .read_late_ns = ns / 2},
                              {.move_ns = ns, .others_ns = ns * 3 / 2},
                              {.bytes = 256 << 10, .move_ns = ns}};
    for (const Course& course : courses) {
      Host host;
      const Spent spent = second(host, course);
      EXPECT_LE(spent.awake_ns * 5, spent.all_ns) << ns;
      EXPECT_LE(spent.all_ns * 50, polled(course).all_ns * 51) << ns;
    }
  }
}

TEST(LanePace, LearnsWithinACallHowLongChunksTake) {
  for (const std::uint64_t ns : {42'000u, 300'000u}) {
    Host host;
    const Spent spent = host.run({.move_ns = ns});
    EXPECT_LE(spent.awake_ns * 4, spent.all_ns) << ns;
    EXPECT_LE(spent.all_ns * 20, polled({.move_ns = ns}).all_ns * 21) << ns;
  }
}

TEST(LanePace, PollsForShortChunks) {
  Host host;
  EXPECT_EQ(second(host, {.move_ns = 5'000}).sleeps, 0u);
}

TEST(LanePace, SleepsBrieflyBetweenLooks) {
  Host host;
  for (const Course& course : {Course{.move_ns = 5'000'000}, Course{.first_ns = 50'000'000}}) {
    const Spent spent = second(host, course);
    EXPECT_GT(spent.sleeps, course.chunks);
    EXPECT_LE(spent.longest_sleep_ns, LanePace::longest_ns);
    EXPECT_GE(spent.shortest_sleep_ns, 2'000u);  // a shorter one costs more than it saves
  }
}

TEST(LanePace, SleepsLessIfTheTimerIsCoarse) {
  for (const std::uint64_t ns : {20'000u, 42'000u, 150'000u}) {
    Host host(55'000);
    const Course course{.move_ns = ns};
    EXPECT_LE(second(host, course).all_ns * 10, polled(course).all_ns * 11) << ns;
  }
}

/// A coarse timer, or a process that was stopped for an hour while it slept.
TEST(LanePace, SleepsAgainOnceTheTimerIsFine) {
  for (const std::uint64_t ns : {100'000ull, 300'000ull, 3'600'000'000'000ull}) {
    Host host(ns);
    (void)host.run({.chunks = 8});
    host.set_timer(4'000);
    for (int call = 0; call < 6; ++call) (void)host.run({});
    const Spent spent = host.run({});
    EXPECT_LE(spent.awake_ns * 4, spent.all_ns) << ns;
  }
}

/// The pace itself, which expects 55 bytes a nanosecond at first.
struct Paced {
  std::uint64_t now_ns = 1'000'000'000, slept_ns = 0;
  LanePace pace{{[this] { return now_ns; },
                 [this](std::uint64_t ns) {
                   now_ns += ns;
                   slept_ns = ns;
                 }}};
  std::uint64_t rest() {
    slept_ns = 0;
    pace.rest();
    return slept_ns;
  }
};

TEST(LanePace, LooksWhenTheFirstLaneIsExpected) {
  constexpr std::uint64_t bytes_a_ns = 55;
  for (const Lane early : lanes) {
    const Lane late = early == Lane::write ? Lane::read : Lane::write;
    Paced paced;
    paced.pace.begin(true);
    paced.pace.move(early, 30'000 * bytes_a_ns);
    paced.pace.move(late, 150'000 * bytes_a_ns);
    EXPECT_LE(paced.rest(), 30'000u);
    paced.pace.end(early);  // and is not looked for any more
    EXPECT_GE(paced.rest(), 100'000u);
  }
}

TEST(LanePace, LearnsNothingFromMovesWithoutBytes) {
  constexpr std::uint64_t bytes = 55 * 30'000;
  Paced paced;
  paced.pace.begin(true);
  for (const std::uint64_t moved : {bytes, bytes, std::uint64_t{0}}) {
    paced.pace.move(Lane::write, moved);
    if (moved == 0) paced.now_ns += 5'000'000;
    if (moved != 0) paced.now_ns += 30'000;
    paced.pace.wait(Lane::write);
  }
  paced.pace.end(Lane::read);
  paced.pace.move(Lane::write, bytes);
  EXPECT_LE(paced.rest(), 30'000u);
}

/// A delay is noticed late by an eighth of it at most, and the chunks behind it are noticed in
/// time.
TEST(LanePace, IsNotMisledByADelay) {
  constexpr std::uint64_t delay = 5'000'000;
  const Course usual;
  const Course courses[] = {{.hiccup = 20, .hiccup_ns = delay}, {.first_ns = delay}};
  for (const Course& course : courses) {
    Host host;
    (void)host.run(usual);
    EXPECT_LE(host.run(course).all_ns, polled(course).all_ns + delay / 8 + 4 * usual.move_ns);
    EXPECT_LE(host.run(usual).all_ns * 20, polled(usual).all_ns * 21);
  }
}

TEST(LanePace, ReadsNoClockInAShortCall) {
  int calls = 0;
  LanePace pace({[&] { return ++calls, std::uint64_t{0}; }, [&](std::uint64_t) { ++calls; }});
  pace.begin(false);
  for (const Lane lane : lanes) {
    pace.move(lane, 100);
    pace.rest();
    pace.wait(lane);
    pace.end(lane);
  }
  pace.end_call();
  pace.rest();
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace penstock::coll
