#include "litmus/rounds.hpp"

#include <algorithm>
#include <span>

#include "base/format.hpp"
#include "base/wait.hpp"
#include "litmus/layout.hpp"
#include "sync/sync.hpp"

namespace penstock::litmus {
namespace {

using coherence::line_bytes;
constexpr std::uint32_t words_per_line = line_bytes / 8;
/// Neither side waits for the other within `stream`, so a round costs little.
constexpr std::uint64_t stream_factor = 8;
/// Words or announcements in each round, so that the two sides' stores overlap.
constexpr std::uint64_t burst = words_per_line;
constexpr std::uint64_t tagged_payload = tested_lines * coherence::tagged_bytes;

struct Line {
  std::uint64_t words[words_per_line];
};

/// Stores as programs do: into this node's caches.
void store_plainly(std::byte* line, std::uint64_t value) {
  auto* words = reinterpret_cast<std::uint64_t*>(line);
  for (std::uint32_t i = 0; i < words_per_line; ++i) {
    __atomic_store_n(words + i, value, __ATOMIC_RELAXED);
  }
}

Line line_of(std::uint64_t value) {
  Line line;
  std::fill_n(line.words, words_per_line, value);
  return line;
}

/// All words of a line, or of a payload, have one value, which only grows.
void count(Counts& counts, std::span<const std::uint64_t> seen, std::uint64_t expected) {
  const auto [least, most] = std::minmax_element(seen.begin(), seen.end());
  if (*most > expected) {
    ++counts.wrong;
  } else if (*least == expected) {
    ++counts.right;
  } else {
    ++(*most == expected ? counts.torn : counts.stale);
  }
}

/// Checks what both sides saw of each other in one burst. Each announced `first` and the following
/// numbers, and looked after each: of two announcements at least one must have been seen.
bool excluded(const Line& mine, const Line& others, std::uint64_t first) {
  for (std::uint64_t i = 0; i < burst; ++i) {
    for (std::uint64_t k = 0; k < burst; ++k) {
      if (mine.words[i] < first + k && others.words[k] < first + i) return false;
    }
  }
  return true;
}

class Rounds {
 public:
  explicit Rounds(const Side& side)
      : side_(side),
        memory_(side.memory),
        own_bell_(memory_, bell(side.self)),
        other_bell_(memory_, bell(1 - side.self)) {
    report_.rounds = side.rounds;
  }

  Result<Report> run() {
    for (const Trial trial : {Trial::plain, Trial::written_back, Trial::dropped, Trial::both,
                              Trial::published, Trial::words, Trial::stream, Trial::bulk,
                              Trial::tagged, Trial::intra_node, Trial::announced}) {
      trial_ = trial;
      for (std::uint32_t writer = 0; writer < sides; ++writer) {
        PENSTOCK_TRY(run_trial(writer));
      }
    }
    PENSTOCK_TRY(exchange());
    return report_;
  }

 private:
  std::byte* bell(std::uint32_t side) const { return side_.lines + bells_at + side * line_bytes; }
  std::byte* tested(std::uint32_t writer) const {
    return side_.lines + tested_at +
           (static_cast<std::uint32_t>(trial_) * sides + writer) * tested_stride;
  }
  std::byte* counts_of(std::uint32_t side) const {
    return side_.lines + counts_at + side * sizeof(CountsLines);
  }
  Counts& counts() { return report_.counts[side_.self][static_cast<std::uint32_t>(trial_)]; }

  /// Both sides number their steps in one sequence, so that each knows whose turn it is.
  void signal() { own_bell_.ring(++step_); }
  Result<void> await_signal(const std::byte* held = nullptr);
  Result<void> meet();
  Result<void> run_trial(std::uint32_t writer);
  Result<void> write(std::byte* line);
  Result<void> read(const std::byte* line);
  void store(std::byte* line, std::uint64_t round);
  bool look_for_tags(const std::byte* line, std::uint64_t round, bool& wrong);
  Result<void> read_tagged(const std::byte* line);
  void look(const std::byte* line, std::uint64_t round);
  Result<void> publish_words(std::byte* line);
  Result<void> announce();
  Result<void> read_stream(const std::byte* line);
  Result<void> exchange();
  bool believable(const CountsLines& found) const;

  const Side& side_;
  const coherence::Memory& memory_;
  sync::Doorbell own_bell_, other_bell_;
  std::uint64_t step_ = 0;
  Trial trial_ = Trial::plain;
  Report report_;
};

/// `held`: a line whose copy stays in use meanwhile, so that the cache does not drop it as unused.
Result<void> Rounds::await_signal(const std::byte* held) {
  ++step_;
  base::Waiter waiter("the other side's next step", side_.timeout_ns, side_.other_living);
  while (other_bell_.read() < step_) {
    if (held != nullptr) (void)memory_.load_word(held);
    auto paused = waiter.pause();
    if (paused) continue;
    if (paused.error().code == ErrorCode::peer_dead && other_bell_.read() >= step_) return {};
    return fail(paused.error().code, "litmus test, \"{}\": {}", trial_name(trial_),
                paused.error().message);
  }
  return {};
}

Result<void> Rounds::meet() {
  signal();
  --step_;  // both steps are one
  return await_signal();
}

Result<void> Rounds::run_trial(std::uint32_t writer) {
  const bool writes = writer == side_.self;
  std::byte* const line = tested(writer);
  if (trial_ == Trial::words) {
    if (writer != 0) return {};  // both write
    if (auto done = publish_words(tested(0)); !done) return done;
  } else if (trial_ == Trial::announced) {
    if (writer != 0) return {};  // both announce
    if (auto done = announce(); !done) return done;
  } else if (trial_ == Trial::stream) {
    if (auto met = meet(); !met) return met;
    for (std::uint64_t value = 1; writes && value <= side_.rounds * stream_factor; ++value) {
      const Line whole = line_of(value);
      memory_.publish_line(line, &whole);
      memory_.store_fence();
    }
    if (!writes) {
      if (auto done = read_stream(line); !done) return done;
    }
  } else {
    const auto reads = trial_ == Trial::tagged ? &Rounds::read_tagged : &Rounds::read;
    if (auto done = writes ? write(line) : (this->*reads)(line); !done) return done;
  }
  return meet();
}

void Rounds::store(std::byte* line, std::uint64_t round) {
  std::uint64_t payload[tested_lines * words_per_line];
  std::fill(std::begin(payload), std::end(payload), round);
  switch (trial_) {
    case Trial::published:
      return memory_.publish_line(line, payload);
    case Trial::bulk:
    case Trial::intra_node:
      return memory_.publish_bulk(line, payload, sizeof payload);
    case Trial::tagged:
      return memory_.publish_tagged(line, payload, tagged_payload, round * tested_lines);
    default:
      store_plainly(line, round);
      if (trial_ != Trial::plain && trial_ != Trial::dropped) memory_.write_back(line, line_bytes);
  }
}

Result<void> Rounds::write(std::byte* line) {
  for (std::uint64_t round = 1; round <= side_.rounds; ++round) {
    // From the reader, which then holds an older copy.
    if (auto held = await_signal(); !held) return held;
    store(line, round);
    signal();  // orders the stores: coherent memory shows them from here on
    if (auto seen = await_signal(); !seen) return seen;
    // In every trial, no line stays dirty for longer than a round. Written back before the next
    // round's stores, which would otherwise travel with it.
    memory_.write_back(line, line_bytes);
    memory_.full_fence();
  }
  return {};
}

Result<void> Rounds::read(const std::byte* line) {
  std::byte older[tested_stride];
  for (std::uint64_t round = 1; round <= side_.rounds; ++round) {
    memory_.load_bulk(older, line, sizeof older);  // from here on this cache holds a copy of it
    signal();
    if (auto stored = await_signal(line); !stored) return stored;
    look(line, round);
    signal();
  }
  return {};
}

void Rounds::look(const std::byte* line, std::uint64_t round) {
  std::uint64_t payload[tested_lines * words_per_line];
  std::uint64_t bytes = line_bytes;
  if (trial_ == Trial::plain || trial_ == Trial::written_back) {
    memory_.load_line(payload, line);
  } else if (trial_ == Trial::bulk) {
    memory_.observe_bulk(payload, line, bytes = sizeof payload);
  } else if (trial_ == Trial::intra_node) {
    memory_.load_bulk(payload, line, bytes = sizeof payload);
  } else {
    memory_.observe_line(payload, line);
  }
  count(counts(), {payload, bytes / sizeof payload[0]}, round);
}

/// Called before the flag is heard and once after it: a payload whose tag has arrived must be
/// there.
Result<void> Rounds::read_tagged(const std::byte* line) {
  for (std::uint64_t round = 1; round <= side_.rounds; ++round) {
    signal();
    ++step_;
    base::Waiter waiter("the end of the tagged lines", side_.timeout_ns, side_.other_living);
    bool wrong = false;
    while (other_bell_.read() < step_) {
      (void)look_for_tags(line, round, wrong);
      if (auto paused = waiter.pause(); !paused && other_bell_.read() < step_) return paused;
    }
    const bool whole = look_for_tags(line, round, wrong);
    ++(wrong ? counts().wrong : whole ? counts().right : counts().stale);
    signal();
  }
  return {};
}

/// True when all sequence tags of the round have arrived. Sets `wrong` if the payload of one has
/// not.
bool Rounds::look_for_tags(const std::byte* line, std::uint64_t round, bool& wrong) {
  std::uint64_t payload[tagged_payload / sizeof(std::uint64_t)];
  memory_.invalidate(line, tested_stride);
  memory_.load_fence();
  const std::uint64_t proved =
      memory_.load_tagged(payload, line, tagged_payload, round * tested_lines);
  for (std::uint64_t i = 0; i < proved / sizeof payload[0]; ++i)
    wrong = wrong || payload[i] != round;
  return proved == tagged_payload;
}

/// Both sides publish their own four words repeatedly at the same time; then both read all eight.
Result<void> Rounds::publish_words(std::byte* line) {
  Line seen;
  for (std::uint64_t round = 1; round <= side_.rounds; ++round) {
    (void)memory_.load_word(line);  // this cache holds a copy, as that of a process which polls a
                                    // mailbox does
    if (auto met = meet(); !met) return met;
    const std::uint64_t last = round * burst;
    for (std::uint64_t value = last - burst + 1; value <= last; ++value) {
      for (std::uint32_t word = side_.self; word < words_per_line; word += sides) {
        memory_.publish_word(line + word * 8, value);
      }
    }
    if (auto met = meet(); !met) return met;
    memory_.observe_line(&seen, line);
    const bool whole = std::all_of(seen.words, seen.words + words_per_line,
                                   [last](std::uint64_t word) { return word == last; });
    ++(whole ? counts().right : counts().stale);
  }
  return {};
}

/// Each side publishes its flag and looks for the other's, repeatedly at the same time; then both
/// report, on their second line, what they saw.
Result<void> Rounds::announce() {
  std::byte* const own = tested(side_.self);
  const std::byte* const other = tested(1 - side_.self);
  for (std::uint64_t round = 1; round <= side_.rounds; ++round) {
    Line mine, others;
    const std::uint64_t first = (round - 1) * burst + 1;
    if (auto met = meet(); !met) return met;
    for (std::uint64_t i = 0; i < burst; ++i) {
      memory_.publish_word(own, first + i);
      memory_.full_fence();
      mine.words[i] = memory_.observe_word(other);
    }
    memory_.publish_line(own + 2 * line_bytes, &mine);
    if (auto met = meet(); !met) return met;  // orders the reports
    memory_.observe_line(&others, other + 2 * line_bytes);
    ++(excluded(mine, others, first) ? counts().right : counts().stale);
  }
  return {};
}

/// The last word is loaded first: the other words must be at least as new.
Result<void> Rounds::read_stream(const std::byte* line) {
  const std::uint64_t last = side_.rounds * stream_factor;
  base::Waiter waiter("the end of the stream", side_.timeout_ns, side_.other_living);
  Line seen{};
  std::uint64_t before = 0;
  while (before < last) {
    memory_.observe_line(&seen, line);
    const std::uint64_t newest = seen.words[words_per_line - 1];
    if (newest == before) {
      if (auto paused = waiter.pause(); !paused) return paused;
      continue;
    }
    const auto [least, most] = std::minmax_element(seen.words, seen.words + words_per_line);
    const bool in_order = newest > before && *least == newest && *most <= last;
    // The last word may be older because the line changed between the two loads.
    const bool whole = std::all_of(seen.words, seen.words + words_per_line - 1,
                                   [&seen](std::uint64_t word) { return word == seen.words[0]; });
    ++(!in_order ? counts().wrong : whole ? counts().right : counts().torn);
    if (newest > last) break;
    before = newest;
  }
  return {};
}

bool Rounds::believable(const CountsLines& found) const {
  const std::uint64_t most = side_.rounds * stream_factor;
  for (std::uint32_t i = 0; i < trial_count; ++i) {
    const Counts& of = found.of_trial[i];
    if (std::max({of.right, of.stale, of.torn, of.wrong}) > most) return false;
    const bool stream = i == static_cast<std::uint32_t>(Trial::stream);
    if (stream ? of.looks() > most : of.looks() != side_.rounds) return false;
  }
  return true;
}

Result<void> Rounds::exchange() {
  CountsLines own{}, other{};
  std::copy_n(report_.counts[side_.self], trial_count, own.of_trial);
  // By lines, as the bells and the seats are; not by bulk, which the counts may have to condemn.
  const auto* const bytes = reinterpret_cast<const std::byte*>(&own);
  for (std::uint64_t at = 0; at < sizeof own; at += line_bytes) {
    memory_.publish_line(counts_of(side_.self) + at, bytes + at);
  }
  if (auto met = meet(); !met) return met;  // orders the counts
  memory_.observe_bulk(&other, counts_of(1 - side_.self), sizeof other);
  if (!believable(other)) {
    return fail(ErrorCode::wrong_format,
                "litmus test: the other side's counts are impossible; another program writes to "
                "object {}, or this memory cannot be trusted at all",
                object_name);
  }
  std::copy_n(other.of_trial, trial_count, report_.counts[1 - side_.self]);
  // The first side frees the lines when the other has said that it no longer touches them.
  if (side_.self == 0) return await_signal();
  signal();
  return {};
}

}  // namespace

Result<Report> run_rounds(const Side& side) {
  return Rounds(side).run();
}

}  // namespace penstock::litmus
