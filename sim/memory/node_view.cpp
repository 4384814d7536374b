#include "sim/memory/node_view.hpp"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace penstock::sim {

namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr int polls_before_asking = 2000;

bool gone(std::uint64_t pid) {
  return ::kill(static_cast<pid_t>(pid), 0) != 0 && errno == ESRCH;
}

}  // namespace

// A lock word holds the holder's process id; a holder that died leaves it set.
bool LineLocks::lock(std::uint64_t line) const {
  if (words_ == nullptr) return false;
  std::atomic<std::uint64_t>& word = words_[line % count];
  const auto self = static_cast<std::uint64_t>(::getpid());
  for (int polls = 0;; ++polls) {
    std::uint64_t holder = 0;
    if (word.compare_exchange_weak(holder, self, std::memory_order_acquire)) return false;
    if (holder == 0) continue;
    if (polls % 64 == 63) sched_yield();
    if (polls % polls_before_asking != polls_before_asking - 1 || !gone(holder)) continue;
    if (word.compare_exchange_strong(holder, self, std::memory_order_acquire)) return true;
  }
}

void LineLocks::unlock(std::uint64_t line) const {
  if (words_ != nullptr) words_[line % count].store(0, std::memory_order_release);
}

class NodeView::Hold {
 public:
  Hold(NodeView& view, std::uint64_t line) : view_(view), line_(line) {
    if (!view_.s_.locks.lock(line)) return;
    // The holder died between a word and its shadow. Its stores count as sent: a word that is
    // wrongly taken for stored would overwrite other nodes' work.
    for (std::uint32_t i = 0; i < words_per_line; ++i) {
      view_.words(view_.s_.shadow, line)[i].store(view_.words(view_.s_.view, line)[i].load(relaxed),
                                                  relaxed);
    }
    view_.set_held(line, false);
    view_.s_.held[line] = static_cast<std::uint8_t>(view_.s_.held[line] & ~written);
  }
  ~Hold() { view_.s_.locks.unlock(line_); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;

 private:
  NodeView& view_;
  std::uint64_t line_;
};

void NodeView::set_held(std::uint64_t line, bool held) {
  const int kept = s_.held[line] & (taken_over | written);
  s_.held[line] = static_cast<std::uint8_t>(held ? kept | copy_held : kept);
}

std::uint8_t NodeView::stored_words(std::uint64_t line) const {
  const std::uint64_t at = line * line_bytes;
  if (s_.locks.needless() && std::memcmp(s_.view + at, s_.shadow + at, line_bytes) == 0) return 0;
  std::uint8_t stored = 0;
  for (std::uint32_t i = 0; i < words_per_line; ++i) {
    const bool differs =
        words(s_.view, line)[i].load(relaxed) != words(s_.shadow, line)[i].load(relaxed);
    stored = static_cast<std::uint8_t>(stored | (differs ? 1u << i : 0u));
  }
  return stored;
}

bool NodeView::dirty(std::uint64_t line) const {
  return (s_.held[line] & written) != 0 || stored_words(line) != 0;
}

/// The mask of words of a dirty line.
void NodeView::send(std::uint64_t line) {
  const std::uint8_t stored = stored_words(line);
  if (stored == 0 && (s_.held[line] & written) == 0) return;
  const bool whole = held(line) || (s_.users_fetch && (s_.held[line] & taken_over) != 0);
  for (std::uint32_t i = 0; i < words_per_line; ++i) {
    if (!whole && (stored >> i & 1) == 0) continue;
    const std::uint64_t value = words(s_.view, line)[i].load(relaxed);
    words(s_.device, line)[i].store(value, std::memory_order_release);
    words(s_.shadow, line)[i].store(value, relaxed);
  }
  s_.held[line] = static_cast<std::uint8_t>(s_.held[line] & ~written);
}

/// Takes over the device's words, except those that a user of this node is storing right now. The
/// last word first: another node's process may be sending the line meanwhile, its last word last.
void NodeView::refresh(std::uint64_t line) {
  if (s_.locks.needless()) return refresh_alone(line);
  for (std::uint32_t turn = 0; turn < words_per_line; ++turn) {
    const std::uint32_t i = (turn + words_per_line - 1) % words_per_line;
    const std::uint64_t value = words(s_.device, line)[i].load(std::memory_order_acquire);
    std::uint64_t before = words(s_.shadow, line)[i].load(relaxed);
    if (words(s_.view, line)[i].compare_exchange_strong(before, value, relaxed)) {
      words(s_.shadow, line)[i].store(value, relaxed);
    }
  }
  s_.held[line] = static_cast<std::uint8_t>(s_.held[line] | taken_over);
}

/// As refresh(). Simulations spend much of their time here. Equal words are not written: many nodes
/// drop many lines of zeros, and would take memory for all of them.
void NodeView::refresh_alone(std::uint64_t line) {
  const std::uint64_t at = line * line_bytes;
  s_.held[line] = static_cast<std::uint8_t>(s_.held[line] | taken_over);
  Line device, view, shadow;
  std::memcpy(&device, s_.device + at, line_bytes);
  std::memcpy(&view, s_.view + at, line_bytes);
  std::memcpy(&shadow, s_.shadow + at, line_bytes);
  if (std::memcmp(&device, &view, line_bytes) == 0 &&
      std::memcmp(&device, &shadow, line_bytes) == 0)
    return;
  for (std::uint32_t i = 0; i < words_per_line; ++i) {
    const bool stored = view.words[i] != shadow.words[i];
    view.words[i] = stored ? view.words[i] : device.words[i];
    shadow.words[i] = stored ? shadow.words[i] : device.words[i];
  }
  std::memcpy(s_.view + at, &view, line_bytes);
  std::memcpy(s_.shadow + at, &shadow, line_bytes);
}

Line NodeView::load(std::uint64_t line) {
  const Hold hold(*this, line);
  if (!held(line)) {
    refresh(line);
    set_held(line, true);
  }
  Line copy;
  for (std::uint32_t i = 0; i < words_per_line; ++i) {
    copy.words[i] = words(s_.view, line)[i].load(relaxed);
  }
  return copy;
}

Line NodeView::device_line(std::uint64_t line) const {
  Line copy;
  for (std::uint32_t i = 0; i < words_per_line; ++i) {
    copy.words[i] = words(s_.device, line)[i].load(std::memory_order_acquire);
  }
  return copy;
}

void NodeView::prefetch(std::uint64_t line) {
  const Hold hold(*this, line);
  if (held(line)) return;
  refresh(line);
  set_held(line, true);
}

void NodeView::write_back(std::uint64_t line) {
  const Hold hold(*this, line);
  send(line);
}

void NodeView::drop(std::uint64_t line) {
  const Hold hold(*this, line);
  send(line);
  refresh(line);  // for users, whose loads cannot fetch
  set_held(line, false);
}

void NodeView::deliver(std::uint64_t line, const Line& data, std::uint8_t mask,
                       std::uint64_t spared) {
  const Hold hold(*this, line);
  send(line);
  for (std::uint32_t i = 0; i < words_per_line; ++i) {
    if ((mask >> i & 1) == 0) continue;
    std::atomic<std::uint64_t>& word = words(s_.device, line)[i];
    std::uint64_t before = spared == 0 ? 0 : word.load(relaxed);
    if (s_.locks.needless()) {
      word.store((before & spared) | (data.words[i] & ~spared), relaxed);
      continue;
    }
    // another node may be writing the spared bytes
    while (!word.compare_exchange_weak(before, (before & spared) | (data.words[i] & ~spared),
                                       std::memory_order_release, relaxed)) {
    }
  }
  refresh(line);
  set_held(line, false);
}

void NodeView::store(std::uint64_t line, const Line& data, std::uint8_t mask) {
  const Hold hold(*this, line);
  if (!held(line)) refresh(line);
  for (std::uint32_t i = 0; i < words_per_line; ++i) {
    if ((mask >> i & 1) != 0) words(s_.view, line)[i].store(data.words[i], relaxed);
  }
  set_held(line, true);
  s_.held[line] = static_cast<std::uint8_t>(s_.held[line] | written);
}

void NodeView::forget_line(std::uint64_t line) {
  const Hold hold(*this, line);
  for (std::uint32_t i = 0; i < words_per_line; ++i) {
    const std::uint64_t value = words(s_.device, line)[i].load(relaxed);
    words(s_.view, line)[i].store(value, relaxed);
    words(s_.shadow, line)[i].store(value, relaxed);
  }
  s_.held[line] = static_cast<std::uint8_t>(s_.held[line] & ~written);
  set_held(line, false);
}

}  // namespace penstock::sim
