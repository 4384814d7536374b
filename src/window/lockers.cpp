#include "window/lockers.hpp"

#include "base/format.hpp"

namespace penstock::window {

namespace {

constexpr std::uint64_t chunk_bytes = 8 * line_bytes;

}  // namespace

SegmentLocks::SegmentLocks(Context& context, std::uint32_t target)
    : context_(context),
      target_(target),
      reader_{place_of(RankLine::lockers, context.member(target).words), words_of_line},
      lines_{{*this, Guarded::epoch}, {*this, Guarded::update}} {}

std::byte* SegmentLocks::Lines::line(std::uint32_t participant) const {
  return locks.context_.at(locks.all_[participant] + static_cast<std::uint64_t>(what) * line_bytes);
}

void SegmentLocks::Lines::invalidate_news() {
  locks.context_.memory.invalidate(locks.context_.at(locks.reader_.at()), 8);
}

Result<sync::OpenLock*> SegmentLocks::lock(Guarded what) {
  auto& made = locks_[static_cast<std::size_t>(what)];
  if (!made) {
    PENSTOCK_TRY(join());
    made.emplace(context_.memory, lines_[static_cast<std::size_t>(what)], *self_,
                 context_.token(context_.self()), context_.alive_check());
  }
  return &*made;
}

/// Makes a needed chunk before it takes the pool's lock again, because that also takes the lock.
Result<void> SegmentLocks::join() {
  if (self_) return {};
  const std::uint64_t place = PENSTOCK_TRY(context_.more(locker_bytes));
  for (std::uint64_t chunk = 0;;) {
    {
      const auto guard = PENSTOCK_TRY(context_.pool.lock());
      lines_[0].invalidate_news();
      context_.memory.load_fence();
      load_news();
      if (all_.size() >= context_.ranks())
        return fail(ErrorCode::wrong_format,
                    "the list of those who lock the segment of rank {} was overwritten; recreate "
                    "the pool",
                    target_);
      if (append(place, chunk)) break;
    }
    chunk = PENSTOCK_TRY(context_.more(chunk_bytes));
  }
  self_ = static_cast<std::uint32_t>(all_.size());
  all_.push_back(place);
  ++reader_.next;
  return {};
}

/// Continues at the last empty word, whose line was invalidated. Each rank joins once, so reading
/// an overwritten list ends too.
void SegmentLocks::load_news() {
  const auto& memory = context_.memory;
  std::uint64_t fresh_until = (reader_.at() / line_bytes + 1) * line_bytes;
  while (all_.size() < context_.ranks()) {
    const std::uint64_t place = memory.load_word(context_.at(reader_.at()));
    const std::uint64_t bytes = reader_.at_end() ? chunk_bytes : locker_bytes;
    if (!context_.is_place(place, bytes)) return;
    if (reader_.at_end()) {
      reader_ = {place, chunk_bytes / 8};
    } else {
      all_.push_back(place);
      ++reader_.next;
    }
    if (reader_.next != 0 && reader_.at() < fresh_until) continue;
    const std::uint64_t end = reader_.chunk + 8ull * reader_.words;
    memory.invalidate(context_.at(reader_.at()), end - reader_.at());
    memory.load_fence();
    fresh_until = end;
  }
}

/// Requires the pool's lock and a reader at the first empty word. False: a chunk is needed, and
/// there is none. A rank that was stopped here and declared dead would overwrite another location:
/// it exits. The memory was zeroed and ordered before (Context::more), and the release of the
/// pool's lock does a full fence before the first publish of this rank's line.
bool SegmentLocks::append(std::uint64_t place, std::uint64_t chunk) {
  const auto& memory = context_.memory;
  if (reader_.at_end()) {
    if (chunk == 0) return false;
    context_.pool.confirm();
    memory.publish_word(context_.at(reader_.at()), chunk);
    reader_ = {chunk, chunk_bytes / 8};
  }
  context_.pool.confirm();
  memory.publish_word(context_.at(reader_.at()), place);
  return true;
}

}  // namespace penstock::window
