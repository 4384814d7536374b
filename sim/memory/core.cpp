#include "sim/memory/core.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace penstock::sim {

const char* event_name(Event event) {
  constexpr const char* names[] = {"publish",        "write-back", "store fence", "full fence",
                                   "invalidate",     "load fence", "load",        "  arrives",
                                   "  written back", "  dropped",  "  fetched"};
  return names[static_cast<std::size_t>(event)];
}

std::uint64_t Core::line_of(const void* at, std::uint64_t bytes) const {
  const auto offset = static_cast<std::uint64_t>(static_cast<const std::byte*>(at) - view_.base());
  if (offset >= view_.bytes() || bytes > view_.bytes() - offset) {
    throw std::out_of_range("an operation outside the pool");
  }
  return offset / line_bytes;
}

// ---- the buffer --------------------------------------------------------------------------------

void Core::buffer(Event kind, std::uint64_t line, const Line& data, std::uint8_t words,
                  bool after_line, std::uint64_t spared) {
  buffer_.push_back({line, epoch_, words, kind == Event::write_back, after_line, false},
                    {now_, last_op_, spared, data});
  show();
}

/// Some of its words leave earlier than others, in any order.
void Core::buffer_torn(std::uint64_t line, const Line& data, std::uint8_t words) {
  if (!faults_.whole_lines && choices_.chance(faults_.tear)) {
    const auto first = static_cast<std::uint8_t>(choices_.below(256) & words);
    if (first != 0) buffer(Event::publish, line, data, first, false);
    words = static_cast<std::uint8_t>(words & ~first);
  }
  if (words != 0) buffer(Event::publish, line, data, words, false);
}

/// Returns the epoch of the oldest ordered operation in the buffer; without one, the current epoch.
std::uint32_t Core::leaving_epoch() const {
  for (const StoreBuffer::Store& store : buffer_.stores()) {
    if (!store.unordered) return store.epoch;
  }
  return epoch_;
}

/// A store may not leave before an earlier one to the same words.
bool Core::passes_no_store(std::size_t index) const {
  const StoreBuffer::Store& wanted = buffer_.stores()[index];
  return std::ranges::none_of(buffer_.stores().first(index),
                              [&](const StoreBuffer::Store& earlier) {
                                return earlier.line == wanted.line &&
                                       (wanted.after_line || (earlier.words & wanted.words) != 0);
                              });
}

void Core::leave(std::size_t index) {
  const StoreBuffer::Store gone = buffer_.stores()[index];
  const StoreBuffer::Details details = buffer_.details(gone);
  buffer_.erase(index);
  show();
  if (!gone.write_back) {
    machine_.happened(*this, Event::deliver, gone.line, gone.words);
    view_.deliver(gone.line, details.data, gone.words, details.spared);
    const bool line_is_out = gone.after_line && (gone.words & last_word) != 0;
    if (line_is_out && choices_.chance(faults_.keep)) fetch(gone.line);
  } else {
    machine_.happened(*this, Event::send, gone.line, 0);
    view_.write_back(gone.line);
  }
}

void Core::deliver_one() {
  constexpr std::size_t max_able = 24;  // more than the lines of a single publish
  std::size_t able[max_able], late[max_able], able_count = 0, late_count = 0;
  const std::uint32_t epoch = leaving_epoch();
  std::uint64_t lines_ahead = 0;  // a bit for each line modulo 64
  const auto stores = buffer_.stores();
  for (std::size_t i = 0; i < stores.size() && able_count + late_count < max_able; ++i) {
    const StoreBuffer::Store& store = stores[i];
    const std::uint64_t bit = 1ull << store.line % 64;
    // A store may not leave before those that a `store_fence` put ahead of it.
    const bool fenced = !store.unordered && store.epoch != epoch;
    if (fenced && !faults_.bulk_passes_store_fence) break;  // all that follow are fenced too
    if (!fenced && ((lines_ahead & bit) == 0 || passes_no_store(i)))
      (store.unordered ? late[late_count++] : able[able_count++]) = i;
    lines_ahead |= bit;
  }
  // An operation that may pass others is put behind them as often as in front.
  if (able_count != 0) return leave(able[choices_.below(able_count)]);
  leave(late[choices_.below(late_count)]);
}

void Core::drain() {
  while (buffered()) deliver_one();
}

void Core::hand_over() {
  while (buffered() && buffer_.front().epoch != epoch_) deliver_one();
}

void Core::killed() {
  // The last operation may have been interrupted.
  while (buffered() && buffer_.details(buffer_.back()).op == last_op_ &&
         choices_.chance(faults_.tear)) {
    buffer_.pop_back();
  }
  drain();
  show();
}

void Core::lost() {
  // Much or little of it leaves, in any order that nothing forbids.
  constexpr std::uint32_t chances[] = {500, 250, 750, 900};
  const std::uint32_t more = chances[choices_.below(4)];
  while (buffered() && choices_.chance(more)) deliver_one();
  buffer_.clear();
  show();
}

bool Core::leaves_by_itself() const {
  return buffered() && !(faults_.hold_unordered && buffer_.front().epoch == epoch_);
}

void Core::pass_time(std::uint64_t now) {
  now_ = now;
  while (leaves_by_itself() && now_ - buffer_.details(buffer_.front()).born > faults_.max_delay)
    deliver_one();
  while (leaves_by_itself() && choices_.chance(faults_.deliver)) deliver_one();
}

void Core::background_event() {
  ++last_op_;
  if (recent_used_ == 0) return;
  if (choices_.chance(faults_.evict)) drop(recent_[choices_.below(recent_used_)]);
  if (choices_.chance(faults_.prefetch)) {
    // The next lines, or the other one of its pair.
    const std::uint64_t intra_node = recent_[choices_.below(recent_used_)];
    const std::uint64_t ahead = choices_.below(4);
    std::uint64_t line = ahead == 3 ? intra_node ^ 1 : intra_node + ahead;
    line = std::min(line, view_.lines() - 1);
    fetch(line);
  }
}

/// A prefetch, which the program did not ask for.
void Core::fetch(std::uint64_t line) {
  if (!view_.held(line)) machine_.happened(*this, Event::prefetch, line, 0);
  view_.prefetch(line);
}

void Core::fetch(const std::byte* at, std::uint64_t bytes) {
  for (std::uint64_t done = 0; done < bytes; done += line_bytes) {
    fetch(line_of(at + done, line_bytes));
  }
}

void Core::touch(std::uint64_t line) {
  recent_[recent_next_] = line;
  recent_next_ = (recent_next_ + 1) % recent_count;
  recent_used_ = std::min(recent_used_ + 1, recent_count);
}

void Core::drop(std::uint64_t line) {
  machine_.happened(*this, Event::drop, line, view_.dirty(line));
  view_.drop(line);
}

// ---- stores ------------------------------------------------------------------------------------

void Core::publish_word(std::byte* to, std::uint64_t value) {
  publish_part(to, value, 0);
}

void Core::publish_bytes(std::byte* to, const void* from, std::uint64_t bytes) {
  const std::uint64_t skipped =
      static_cast<std::uint64_t>(to - view_.base()) % sizeof(std::uint64_t);
  std::uint64_t value = 0, written = 0;
  std::memcpy(reinterpret_cast<std::byte*>(&value) + skipped, from, bytes);
  std::memset(reinterpret_cast<std::byte*>(&written) + skipped, 0xff, bytes);
  publish_part(to - skipped, value, ~written);
}

/// One word without the bits in `spared`.
void Core::publish_part(std::byte* to, std::uint64_t value, std::uint64_t spared) {
  machine_.step(*this);
  const std::uint64_t line = line_of(to, sizeof value);
  const auto word = static_cast<std::uint64_t>(to - view_.base()) % line_bytes / 8;
  ++device_writes_;
  machine_.happened(*this, Event::publish, line, value);
  Line data{};
  touch(line);
  if (faults_.whole_line_words) {
    // A device that ignores byte enables: reads the line now, and stores all of it later.
    const Line seen = view_.device_line(line);
    for (std::uint32_t i = 0; i < words_per_line; ++i) data.words[i] = own(seen, line, i);
    data.words[word] = (data.words[word] & spared) | (value & ~spared);
    buffer(Event::publish, line, data, all_words, false);
    return;
  }
  data.words[word] = value;
  buffer(Event::publish, line, data, static_cast<std::uint8_t>(1u << word), false, spared);
}

void Core::publish_line(std::uint64_t line, const Line& data, bool tagged) {
  machine_.step(*this);
  ++device_writes_;
  machine_.happened(*this, Event::publish, line, data.words[0]);
  touch(line);
  if (tagged && faults_.tags_arrive_first) {
    buffer(Event::publish, line, data, last_word, true);
    buffer(Event::publish, line, data, all_words & ~last_word, true);
    return;
  }
  if (faults_.whole_lines || !choices_.chance(faults_.tear)) {
    buffer(Event::publish, line, data, all_words, true);
    return;
  }
  const auto first = static_cast<std::uint8_t>(choices_.below(128));
  const auto rest = static_cast<std::uint8_t>(all_words & ~last_word & ~first);
  if (first != 0) buffer(Event::publish, line, data, first, true);
  if (rest != 0) buffer(Event::publish, line, data, rest, true);
  buffer(Event::publish, line, data, last_word, true);
}

void Core::send_line(std::uint64_t line, const Line& data, bool tagged) {
  const bool odd = tagged && faults_.tags_arrive_first;
  if (odd || !choices_.chance(faults_.stored)) return publish_line(line, data, tagged);
  machine_.step(*this);
  ++device_writes_;
  machine_.happened(*this, Event::publish, line, data.words[0]);
  touch(line);
  // A store through the cache waits for the stores that a `store_fence` put ahead of it, and for
  // those to its own line.
  const auto ahead = [&](const StoreBuffer::Store& store) {
    return store.line == line || (!store.unordered && store.epoch != epoch_);
  };
  while (std::ranges::any_of(buffer_.stores(), ahead)) deliver_one();
  if (!faults_.whole_lines && choices_.chance(faults_.tear)) {
    view_.store(line, data, static_cast<std::uint8_t>(choices_.below(128)));
    machine_.step(*this);
  }
  view_.store(line, data, all_words);
  machine_.step(*this);
  buffer(Event::write_back, line, Line{}, all_words, true);
}

void Core::publish(std::byte* to, const void* from, std::uint64_t bytes, bool tail_undefined) {
  for (std::uint64_t done = 0; done < bytes; done += line_bytes) {
    machine_.step(*this);
    ++device_writes_;
    const std::uint64_t line = line_of(to + done, 1);
    machine_.happened(*this, Event::publish, line, bytes);
    Line data;
    std::memset(&data, tail_undefined ? 0xdb : 0, sizeof data);
    std::memcpy(&data, static_cast<const std::byte*>(from) + done,
                std::min<std::uint64_t>(line_bytes, bytes - done));
    touch(line);
    buffer_torn(line, data, all_words);
    buffer_.let_last_pass(faults_.bulk_passes_store_fence);
  }
}

void Core::write_back(const std::byte* at, std::uint64_t bytes) {
  machine_.step(*this);
  if (bytes == 0 || faults_.idle_write_back) return;
  const std::uint64_t first = line_of(at, bytes), last = line_of(at + bytes - 1, 1);
  device_writes_ += last - first + 1;
  for (std::uint64_t line = first; line <= last; ++line) {
    machine_.happened(*this, Event::write_back, line, 0);
    buffer(Event::write_back, line, Line{}, all_words, true);
  }
}

void Core::store_fence() {
  machine_.step(*this);
  machine_.happened(*this, Event::store_fence, 0, 0);
  wait_for_device(writes_fenced_, device_writes_);
  ++epoch_;
  if (!faults_.lazy_store_fence) drain();
}

void Core::full_fence() {
  if (faults_.loads_pass_full_fence) return store_fence();
  machine_.step(*this);
  machine_.happened(*this, Event::full_fence, 0, 0);
  wait_for_device(writes_fenced_, device_writes_);
  while (buffered()) {
    deliver_one();
    if (buffered()) machine_.step(*this);  // others may see the part that has left so far
  }
  ++epoch_;
}

// ---- loads -------------------------------------------------------------------------------------

/// Takes effect once, now or at `load_fence`. A line that is fetched in between stays, however old
/// it is then.
void Core::invalidate(const std::byte* at, std::uint64_t bytes) {
  machine_.step(*this);
  if (bytes == 0) return;
  const std::uint64_t first = line_of(at, bytes), last = line_of(at + bytes - 1, 1);
  device_reads_ += last - first + 1;
  for (std::uint64_t line = first; line <= last; ++line) {
    machine_.happened(*this, Event::invalidate, line, 0);
    if (choices_.chance(faults_.drop_early)) {
      drop(line);
      if (choices_.chance(faults_.prefetch)) fetch(line);
    } else {
      dropping_.push_back(line);
    }
  }
}

/// Does not send buffered stores: in some modes only `full_fence` does.
void Core::load_fence() {
  machine_.step(*this);
  machine_.happened(*this, Event::load_fence, 0, 0);
  wait_for_device(reads_fenced_, device_reads_);
  for (const std::uint64_t line : dropping_) drop(line);
  dropping_.clear();
}

/// A thread sees its own stores before any other thread does.
std::uint64_t Core::own(const Line& seen, std::uint64_t line, std::uint32_t word) const {
  std::uint64_t value = seen.words[word];
  for (const StoreBuffer::Store& store : buffer_.stores()) {
    if (store.line == line && (store.words >> word & 1) != 0 && !store.write_back) {
      const StoreBuffer::Details& details = buffer_.details(store);
      value = (value & details.spared) | (details.data.words[word] & ~details.spared);
    }
  }
  return value;
}

std::uint64_t Core::load_word(const std::byte* from) {
  machine_.step(*this);
  const std::uint64_t line = line_of(from, 8);
  const auto word = static_cast<std::uint64_t>(from - view_.base()) % line_bytes / 8;
  touch(line);
  const std::uint64_t value = own(view_.load(line), line, static_cast<std::uint32_t>(word));
  machine_.happened(*this, Event::load, line, value);
  return value;
}

Line Core::load_line(std::uint64_t line) {
  machine_.step(*this);
  touch(line);
  Line copy{};
  Line seen = view_.load(line);
  copy.words[7] = own(seen, line, 7);
  if (choices_.chance(faults_.tear)) {
    machine_.step(*this);
    seen = view_.load(line);
  }
  for (std::uint32_t i = 0; i < 7; ++i) copy.words[i] = own(seen, line, i);
  machine_.happened(*this, Event::load, line, copy.words[0]);
  return copy;
}

void Core::load(void* to, const std::byte* from, std::uint64_t bytes) {
  auto* at = static_cast<std::byte*>(to);
  while (bytes != 0) {
    const std::uint64_t line = line_of(from, 1);
    const auto skipped = static_cast<std::uint64_t>(from - view_.base()) % line_bytes;
    const std::uint64_t part = std::min(bytes, line_bytes - skipped);
    const Line copy = load_line(line);
    std::memcpy(at, reinterpret_cast<const std::byte*>(&copy) + skipped, part);
    at += part;
    from += part;
    bytes -= part;
  }
}

// ---- the table of operations -------------------------------------------------------------------

namespace {

CurrentCore current_core = nullptr;

std::byte* bytes_of(void* at) {
  return static_cast<std::byte*>(at);
}
const std::byte* bytes_of(const void* at) {
  return static_cast<const std::byte*>(at);
}

void publish_tagged(void* self, void* to, const void* from, std::size_t bytes,
                    std::uint64_t first_tag) {
  Core& core = current_core(self);
  const std::byte* payload = bytes_of(from);
  std::byte* at = bytes_of(to);
  for (std::size_t done = 0; done < bytes; done += coherence::tagged_bytes, at += line_bytes) {
    Line line;
    std::memset(&line, 0xdb, sizeof line);
    std::memcpy(&line, payload + done, std::min(coherence::tagged_bytes, bytes - done));
    line.words[7] = first_tag++;
    core.send_line(core.line_of(at, line_bytes), line, true);
  }
}

std::size_t load_tagged(void* self, void* to, const void* from, std::size_t bytes,
                        std::uint64_t first_tag) {
  Core& core = current_core(self);
  const std::byte* at = bytes_of(from);
  for (std::size_t done = 0; done < bytes; done += coherence::tagged_bytes, at += line_bytes) {
    const Line line = core.load_line(core.line_of(at, line_bytes));
    if (line.words[7] != first_tag++) return done;
    std::memcpy(bytes_of(to) + done, &line, std::min(coherence::tagged_bytes, bytes - done));
  }
  return bytes;
}

}  // namespace

void set_current_core(CurrentCore finder) {
  current_core = finder;
}

const coherence::Ops& simulated_ops() {
  static const coherence::Ops table = {
      .publish_word =
          [](void* self, void* to, std::uint64_t value) {
            current_core(self).publish_word(bytes_of(to), value);
          },
      .publish_bytes =
          [](void* self, void* to, const void* from, std::size_t bytes) {
            current_core(self).publish_bytes(bytes_of(to), from, bytes);
          },
      .publish_line =
          [](void* self, void* to, const void* from) {
            Core& core = current_core(self);
            Line line;
            std::memcpy(&line, from, sizeof line);
            core.publish_line(core.line_of(to, line_bytes), line);
          },
      .send_line =
          [](void* self, void* to, const void* from) {
            Core& core = current_core(self);
            Line line;
            std::memcpy(&line, from, sizeof line);
            core.send_line(core.line_of(to, line_bytes), line);
          },
      .publish_bulk =
          [](void* self, void* to, const void* from, std::size_t bytes) {
            current_core(self).publish(bytes_of(to), from, bytes, true);
          },
      .publish_tagged = publish_tagged,
      .stream_line =
          [](void* self, void* to, const void* from) {
            Core& core = current_core(self);
            Line line;
            std::memcpy(&line, from, sizeof line);
            core.send_line(core.line_of(to, line_bytes), line);
          },
      .stream_tagged = publish_tagged,
      .write_back = [](void* self, const void* at,
                       std::size_t bytes) { current_core(self).write_back(bytes_of(at), bytes); },
      .store_fence = [](void* self) { current_core(self).store_fence(); },
      .invalidate = [](void* self, const void* at,
                       std::size_t bytes) { current_core(self).invalidate(bytes_of(at), bytes); },
      .fetch = [](void* self, const void* at,
                  std::size_t bytes) { current_core(self).fetch(bytes_of(at), bytes); },
      .load_fence = [](void* self) { current_core(self).load_fence(); },
      .load_word = [](void* self,
                      const void* from) { return current_core(self).load_word(bytes_of(from)); },
      .load_line =
          [](void* self, void* to, const void* from) {
            Core& core = current_core(self);
            const Line line = core.load_line(core.line_of(from, line_bytes));
            std::memcpy(to, &line, sizeof line);
          },
      .load_bulk = [](void* self, void* to, const void* from,
                      std::size_t bytes) { current_core(self).load(to, bytes_of(from), bytes); },
      .load_tagged = load_tagged,
      .full_fence = [](void* self) { current_core(self).full_fence(); },
      .device_reads = [](void* self) { return current_core(self).device_reads(); },
  };
  return table;
}

}  // namespace penstock::sim
