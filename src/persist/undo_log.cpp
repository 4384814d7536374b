#include "persist/undo_log.hpp"

#include <algorithm>

#include "base/checked.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "base/wait.hpp"

namespace penstock::persist {

namespace {

/// Finds a free line of the table. Under the pool's lock.
std::optional<std::uint32_t> free_number(const Writers& writers) {
  const auto lines = writers.all();
  const auto at = std::find_if(lines.begin(), lines.end(),
                               [](const WriterLine& line) { return line.owner == 0; });
  if (at == lines.end()) return std::nullopt;
  return static_cast<std::uint32_t>(at - lines.begin());
}

Result<std::uint32_t> enter(arena::Arena& arena, const Writers& writers, WriterLine& line) {
  for (const bool last : {false, true}) {
    {
      const auto guard = PENSTOCK_TRY(arena.pool().lock());
      if (const auto number = free_number(writers)) {
        line.log = *number;
        writers.put(*number, line);
        return *number;
      }
    }
    if (!last) PENSTOCK_TRY(recover(arena));
  }
  return fail(ErrorCode::no_slots,
              "all {} undo logs of pool {} are in use; close some, or recreate the pool: penstock "
              "pool create {} --ranks {} --overwrite",
              writers.count(), arena.pool().info().spec,
              base::shell_quote(arena.pool().info().spec), writers.count());
}

}  // namespace

Result<std::unique_ptr<UndoLog>> UndoLog::open(arena::Arena& arena, std::uint64_t bytes) {
  if (bytes < min_bytes || bytes % line_bytes != 0)
    return fail(ErrorCode::invalid_argument,
                "an undo log of {} bytes: at least {} are needed, in whole lines of {}", bytes,
                min_bytes, line_bytes);
  if (arena.pool().token() == 0)
    return fail(ErrorCode::invalid_argument, "an observer of pool {} changes nothing in it",
                arena.pool().info().spec);
  const auto device = PENSTOCK_TRY(Device::of(arena.pool()));
  const auto writers = PENSTOCK_TRY(Writers::find_or_make(arena));
  WriterLine line;
  line.owner = arena.pool().token();
  line.node = arena.pool().node();
  const auto number = PENSTOCK_TRY(enter(arena, writers, line));
  const auto log =
      arena.create(log_name(line), bytes,
                   {.lifetime = lifetime_in(arena.pool()), .alignment = page_bytes, .zero = false});
  if (!log) {
    const auto guard = arena.pool().lock();
    if (guard) writers.erase(number);
    return unexpected(log.error());
  }
  return std::unique_ptr<UndoLog>(new UndoLog(arena, device, writers, number, *log));
}

UndoLog::UndoLog(arena::Arena& arena, const Device& device, const Writers& writers,
                 std::uint32_t number, arena::Object log)
    : arena_(arena),
      device_(device),
      writers_(writers),
      number_(number),
      log_(std::move(log)),
      lane_(device, log_, arena.pool().info().id),
      next_(lane_.first()),
      synced_(next_) {}

UndoLog::~UndoLog() {
  if (!arena_.pool().attached_here()) return;
  auto left = active_ ? abort() : Result<void>();
  if (left) left = release_all();
  if (left) left = arena_.destroy(log_);
  if (!left && left.error().code == ErrorCode::not_found) left = {};
  if (left) {
    const auto guard = arena_.pool().lock();
    if (!guard)
      left = unexpected(guard.error());
    else if (writers_.stands_in(arena_))
      writers_.erase(number_);
  }
  if (!left)
    base::log(base::Level::warn, "an undo log of pool {} stays until penstock pool gc: {}",
              arena_.pool().info().spec, left.error().message);
}

/// A forked child's copies belong to its parent.
Result<void> UndoLog::check_process() const {
  if (arena_.pool().attached_here()) return {};
  return fail(
      ErrorCode::invalid_argument,
      "the undo log is one of the process that this child was forked from: attach to pool {} "
      "in the child",
      arena_.pool().info().spec);
}

/// Called before a transaction's first write to the log: if the log was destroyed, its space may
/// belong to another object.
Result<void> UndoLog::check_log() const {
  if (arena_.stands(log_)) return {};
  device_.confirm();  // recovery destroys the log of a process that was declared dead
  return fail(ErrorCode::unavailable,
              "undo log \"{}\" of pool {} was destroyed while this process used it; nothing was "
              "written: abort the transaction, close the log and open another",
              log_.name, arena_.pool().info().spec);
}

Result<void> UndoLog::begin() {
  PENSTOCK_TRY(check_process());
  if (active_)
    return fail(ErrorCode::invalid_argument,
                "a transaction is under way on this undo log: commit or abort it first; a thread "
                "needs an undo log of its own");
  active_ = true;
  ++transaction_;
  return {};
}

/// Makes this log the writer of the object.
Result<UndoLog::Writing*> UndoLog::writing(const arena::Object& object) {
  for (const auto& writing : writings_)
    if (writing->object.generation == object.generation) return writing.get();
  const auto version = PENSTOCK_TRY(ObjectVersion::find_or_make(arena_, object));
  base::Waiter waiter("a host to flush its caches", flush_wait_ns, {},
                      base::WaitPolicy{.spins = 0, .yields = 0, .sleep_ns = 10'000'000});
  for (;;) {
    const auto state = PENSTOCK_TRY(become_writer(object, version));
    if (state.owner == arena_.pool().token() && state.writer == number_) {
      writings_.push_back(std::make_unique<Writing>(Writing{object, version, state, {}}));
      return writings_.back().get();
    }
    if (!waiter.pause()) return unexpected(not_flushed(arena_, object, state));
  }
}

/// Returns the resulting state: still the previous writer's while its node has to flush.
Result<ObjectVersion::State> UndoLog::become_writer(const arena::Object& object,
                                                    const ObjectVersion& version) {
  const auto guard = PENSTOCK_TRY(arena_.pool().lock());
  if (!arena_.find(object.slot, object.generation) || !version.held_in(arena_))
    return fail(ErrorCode::not_found, "object \"{}\" was destroyed meanwhile", object.name);
  const auto state = version.read();
  if (!PENSTOCK_TRY(end_dead_writer(arena_, writers_, object, state))) return state;
  const std::uint64_t whole = state.version + (state.version & 1);
  return version.publish(state, whole, arena_.pool().token(), number_);  // the lock orders it
}

Result<void> UndoLog::add(const arena::Object& object, std::uint64_t offset, std::uint64_t bytes) {
  PENSTOCK_TRY(check_process());
  if (!active_)
    return fail(ErrorCode::invalid_argument,
                "no transaction is under way: begin one before bytes of \"{}\" are added",
                object.name);
  if (bytes == 0 || !base::range_inside(offset, bytes, object.bytes))
    return fail(ErrorCode::invalid_argument,
                "{} bytes from {} on do not lie in object \"{}\" of {}", bytes, offset, object.name,
                object.bytes);
  const std::uint64_t first = offset / line_bytes * line_bytes;
  const Range whole{first, base::align_up(offset + bytes, line_bytes) - first};
  Writing* const of = PENSTOCK_TRY(writing(object));
  for (const Range& range : of->ranges)
    if (range.offset <= whole.offset && whole.offset + whole.bytes <= range.offset + range.bytes)
      return {};
  return keep(*of, whole);
}

/// On return the device holds all that must precede stores to the range: the old bytes, that the
/// transaction is under way, and that the object is being changed.
Result<void> UndoLog::keep(Writing& writing, const Range& range) {
  const std::uint64_t left = lane_.capacity() - bytes_used();
  if (Lane::needed(range.bytes) > left)
    return fail(ErrorCode::no_space,
                "the old bytes of \"{}\" need {} of the undo log, which has {} left of {}: open it "
                "with more, or save large arrays as checkpoints",
                writing.object.name, base::format_bytes(Lane::needed(range.bytes)),
                base::format_bytes(left), base::format_bytes(lane_.capacity()));
  if (entries_.empty()) PENSTOCK_TRY(check_log());
  EntryHeader header;
  header.offset = range.offset;
  header.bytes = range.bytes;
  header.transaction = transaction_;
  header.index = entries_.size();
  if (entries_.empty()) lane_.set(Lane::State::active, transaction_);
  entries_.push_back(lane_.append(next_, writing.object, header));
  if (!writing.state.changing())
    writing.state = writing.version.publish(writing.state, writing.state.version + 1,
                                            writing.state.owner, number_);
  device_.full_fence();
  device_.confirm();  // a process that declares this one dead after this finds all that, and waits
                      // for the flush
  next_ += Lane::needed(range.bytes);
  if (synced_ == lane_.first()) PENSTOCK_TRY(lane_.sync_state());
  PENSTOCK_TRY(device_.sync(synced_, next_ - synced_));  // includes entries that an earlier add()
                                                         // could not sync
  synced_ = next_;
  writing.ranges.push_back(range);
  return {};
}

Result<void> UndoLog::sync_changed() const {
  for (const auto& writing : writings_)
    for (const Range& range : writing->ranges)
      PENSTOCK_TRY(device_.sync(writing->object.offset + range.offset, range.bytes));
  return {};
}

/// On return the state is at the device.
void UndoLog::set(Lane::State state) {
  lane_.set(state, transaction_);
  device_.full_fence();  // before a file is synced
}

/// Readers see the new bytes from here on.
void UndoLog::publish_versions() {
  for (const auto& writing : writings_) {
    if (!writing->state.changing()) continue;
    writing->state = writing->version.publish(writing->state, writing->state.version + 1,
                                              writing->state.owner, number_);
  }
  device_.full_fence();  // a process that is told by other means sees them too
}

void UndoLog::end() {
  active_ = false;
  next_ = synced_ = lane_.first();
  entries_.clear();
  for (const auto& writing : writings_) writing->ranges.clear();
}

Result<void> UndoLog::commit() {
  PENSTOCK_TRY(check_process());
  if (!active_)
    return fail(ErrorCode::invalid_argument,
                "no transaction is under way: there is nothing to commit");
  if (!entries_.empty()) {
    for (const auto& writing : writings_)
      for (const Range& range : writing->ranges)
        device_.write_back(writing->object.offset + range.offset, range.bytes);
    device_.store_fence();  // the data first
    PENSTOCK_TRY(sync_changed());
    set(Lane::State::idle);  // from here on the transaction is committed
    if (auto kept = lane_.sync_state(); !kept) {
      set(Lane::State::active);  // the process may die in the middle of abort()
      return kept;
    }
    publish_versions();
  }
  end();
  return {};
}

Result<void> UndoLog::abort() {
  PENSTOCK_TRY(check_process());
  if (!active_)
    return fail(ErrorCode::invalid_argument,
                "no transaction is under way: there is nothing to abort");
  if (!entries_.empty()) {
    for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
      for (const auto& writing : writings_)
        if (writing->object.generation == entry->header.generation)
          lane_.restore(*entry, writing->object);
    }
    device_.store_fence();
    PENSTOCK_TRY(sync_changed());
    set(Lane::State::idle);
    PENSTOCK_TRY(lane_.sync_state());
    publish_versions();
  }
  end();
  return {};
}

void UndoLog::give_back(const Writing& writing) const {
  if (writing.version.held_in(arena_))  // else it was destroyed with its object
    writing.version.publish(writing.state, writing.state.version, 0, 0);
}

Result<void> UndoLog::release(const arena::Object& object) {
  PENSTOCK_TRY(check_process());
  if (active_)
    return fail(ErrorCode::invalid_argument,
                "object \"{}\" is given back after the transaction: commit or abort it first",
                object.name);
  std::erase_if(writings_, [&](const std::unique_ptr<Writing>& writing) {
    if (writing->object.generation != object.generation) return false;
    give_back(*writing);
    return true;
  });
  device_.full_fence();
  return {};
}

Result<void> UndoLog::release_all() {
  PENSTOCK_TRY(check_process());
  if (active_)
    return fail(ErrorCode::invalid_argument,
                "objects are given back after the transaction: commit or abort it first");
  for (const auto& writing : writings_) give_back(*writing);
  writings_.clear();
  device_.full_fence();
  return {};
}

}  // namespace penstock::persist
