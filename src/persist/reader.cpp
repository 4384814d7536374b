#include "persist/reader.hpp"

#include "base/checked.hpp"
#include "base/format.hpp"
#include "base/wait.hpp"
#include "persist/recovery.hpp"

namespace penstock::persist {

Result<Reader> Reader::open(arena::Arena& arena, const arena::Object& object) {
  const auto device = PENSTOCK_TRY(Device::of(arena.pool()));
  return Reader(arena, device, object);
}

/// Returns nullopt if no transaction has changed the object yet.
Result<std::optional<ObjectVersion::State>> Reader::look() {
  if (!version_) version_ = PENSTOCK_TRY(ObjectVersion::find(*arena_, object_));
  if (!version_) return std::optional<ObjectVersion::State>();
  return std::optional<ObjectVersion::State>(version_->read());
}

/// Ends the writing of a writer that was found dead.
Result<void> Reader::end_writer() {
  const auto guard = PENSTOCK_TRY(arena_->pool().lock());
  const auto state = version_->read();
  if (!state.changing() || arena_->pool().alive(state.owner)) return {};
  const auto writers = PENSTOCK_TRY(Writers::find(*arena_));
  if (writers && !PENSTOCK_TRY(end_dead_writer(*arena_, *writers, object_, state)))
    return unexpected(not_flushed(*arena_, object_, state));
  version_->publish(state, state.version + 1, 0, 0);  // the lock orders it
  return {};
}

Result<std::uint64_t> Reader::read(void* to, std::uint64_t offset, std::uint64_t bytes,
                                   std::uint64_t timeout_ns) {
  if (!base::range_inside(offset, bytes, object_.bytes))
    return fail(ErrorCode::invalid_argument,
                "{} bytes from {} on do not lie in object \"{}\" of {}", bytes, offset,
                object_.name, object_.bytes);
  std::uint64_t owner = 0;
  const auto lives = [&]() -> Result<void> {
    if (owner == 0 || arena_->pool().alive(owner)) return {};
    return make_error(ErrorCode::peer_dead, "the writer has died");
  };
  base::Waiter waiter("a transaction to end", timeout_ns, lives);
  base::Waiter flush("a host to flush its caches", timeout_ns == 0 ? flush_wait_ns : timeout_ns, {},
                     base::WaitPolicy{.spins = 0, .yields = 0, .sleep_ns = 10'000'000});
  for (;;) {
    const auto before = PENSTOCK_TRY(look());
    if (!before || !before->changing()) {
      device_.invalidate(object_.offset + offset, bytes);
      device_.load_fence();
      device_.load_bulk(object_.offset + offset, to, bytes);
      const auto after = PENSTOCK_TRY(look());
      if (!after) return 0;
      if (before && after->version == before->version) return after->version;
    }
    owner = before ? before->owner : 0;
    auto waited = waiter.pause();
    if (waited) continue;
    if (waited.error().code != ErrorCode::peer_dead) return unexpected(waited.error());
    const auto ended = end_writer();
    if (!ended && (ended.error().code != ErrorCode::unavailable || !flush.pause()))
      return unexpected(ended.error());
  }
}

}  // namespace penstock::persist
