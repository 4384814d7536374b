#include "persist/checkpoint.hpp"

#include <algorithm>
#include <cstring>

#include "base/checked.hpp"
#include "base/format.hpp"

namespace penstock::persist {

namespace {

constexpr std::uint64_t word_bytes = 8;

}  // namespace

Checkpoint::Checkpoint(arena::Arena& arena, const Device& device, arena::Object object)
    : arena_(&arena),
      device_(device),
      object_(std::move(object)),
      lines_(device, object_.offset, page_bytes,
             key_of(arena.pool().info().id, object_.generation, Kind::checkpoint)),
      copy_bytes_(object_.bytes < pair_bytes
                      ? 0
                      : (object_.bytes - pair_bytes) / 2 / page_bytes * page_bytes) {}

Result<Checkpoint> Checkpoint::create(arena::Arena& arena, std::string_view name,
                                      std::uint64_t bytes, arena::Lifetime lifetime) {
  constexpr std::uint64_t max_bytes = UINT64_MAX / 4;
  if (bytes == 0 || bytes > max_bytes)
    return fail(ErrorCode::invalid_argument, "checkpoint \"{}\" of {} bytes: 1 to {} are possible",
                name, bytes, max_bytes);
  if (lifetime == arena::Lifetime::process)
    return fail(
        ErrorCode::invalid_argument,
        "checkpoint \"{}\" would end with the process that made it: make it of lifetime pool "
        "or persistent",
        name);
  const auto device = PENSTOCK_TRY(Device::of(arena.pool()));
  const std::uint64_t whole = pair_bytes + 2 * base::align_up(bytes, page_bytes);
  auto object = PENSTOCK_TRY(arena.create(
      name, whole, {.lifetime = lifetime, .alignment = page_bytes, .open_existing = true}));
  Checkpoint made(arena, device, std::move(object));
  const auto guard = PENSTOCK_TRY(arena.pool().lock());
  if (!made.is_fresh()) {
    PENSTOCK_TRY(made.line());
    return made;
  }
  made.lines_.publish_line(0, PairLine{});  // pairs with open()
  made.device_.full_fence();
  PENSTOCK_TRY(made.lines_.sync(0));
  return made;
}

Result<Checkpoint> Checkpoint::open(arena::Arena& arena, std::string_view name) {
  const auto device = PENSTOCK_TRY(Device::of(arena.pool()));
  Checkpoint found(arena, device, PENSTOCK_TRY(arena.open(name)));
  if (found.is_fresh())
    return fail(ErrorCode::not_found,
                "object \"{}\" of pool {} is not a checkpoint, or is just being made", name,
                arena.pool().info().spec);
  PENSTOCK_TRY(found.line());
  return found;
}

/// True if it has a checkpoint's size and neither line was written yet. The first line written has
/// only one word that is not 0, so that no death leaves a part of it.
bool Checkpoint::is_fresh() const {
  if (copy_bytes_ == 0 || object_.bytes != pair_bytes + 2 * copy_bytes_) return false;
  PairLine lines[2];
  for (const std::uint64_t step : {0, 1}) {
    device_.invalidate(lines_.place(step), line_bytes);
    device_.load_fence();
    device_.load_line(lines_.place(step), &lines[step]);
  }
  constexpr PairLine none[2] = {};
  return std::memcmp(lines, none, sizeof lines) == 0;
}

Result<PairLine> Checkpoint::line() const {
  const auto now = copy_bytes_ == 0 ? std::nullopt : lines_.latest();
  if (now) return *now;
  return fail(
      ErrorCode::wrong_format,
      "object \"{}\" of pool {} is not a checkpoint, or both lines that say which copy is valid "
      "are damaged",
      object_.name, arena_->pool().info().spec);
}

Result<Checkpoint::Valid> Checkpoint::valid() const {
  const auto now = PENSTOCK_TRY(line());
  return Valid{now.step, now.words[0]};
}

Result<std::uint64_t> Checkpoint::begin() {
  begun_ = PENSTOCK_TRY(line()).step + 1;
  written_first_ = UINT64_MAX;
  written_end_ = 0;
  return begun_;
}

Result<PairLine> Checkpoint::line_before_begun() const {
  if (begun_ == 0)
    return fail(ErrorCode::invalid_argument,
                "no version of checkpoint \"{}\" was begun: begin one before writing",
                object_.name);
  const auto now = PENSTOCK_TRY(line());
  if (now.step + 1 == begun_) return now;
  return fail(
      ErrorCode::mismatch,
      "version {} of checkpoint \"{}\" was begun after version {}, but {} is valid: another "
      "process has committed; begin again",
      begun_, object_.name, begun_ - 1, now.step);
}

Result<void> Checkpoint::check_range(std::uint64_t offset, std::uint64_t bytes) const {
  if (base::range_inside(offset, bytes, copy_bytes_)) return {};
  return fail(ErrorCode::invalid_argument,
              "{} bytes from {} on do not lie in a copy of checkpoint \"{}\" of {}", bytes, offset,
              object_.name, copy_bytes_);
}

/// Writes word by word to lines that others may write too, so that the others' words stay
/// untouched.
void Checkpoint::write_words(std::uint64_t to, const std::byte* from, std::uint64_t bytes) const {
  while (bytes != 0) {
    const std::uint64_t part = std::min(bytes, word_bytes - to % word_bytes);
    device_.publish_bytes(to, from, part);
    to += part;
    from += part;
    bytes -= part;
  }
}

Result<void> Checkpoint::write(std::uint64_t offset, const void* from, std::uint64_t bytes) {
  PENSTOCK_TRY(check_range(offset, bytes));
  PENSTOCK_TRY(line_before_begun());
  if (bytes == 0) return {};
  const auto* source = static_cast<const std::byte*>(from);
  const std::uint64_t to = copy(begun_) + offset;
  const std::uint64_t head = std::min(bytes, base::align_up(to, line_bytes) - to);
  const std::uint64_t whole = (bytes - head) / line_bytes * line_bytes;
  write_words(to, source, head);
  if (whole != 0) device_.publish_bulk(to + head, source + head, whole);
  write_words(to + head + whole, source + head + whole, bytes - head - whole);
  written_first_ = std::min(written_first_, to);
  written_end_ = std::max(written_end_, to + bytes);
  return {};
}

Result<void> Checkpoint::flush() {
  device_.full_fence();
  if (written_end_ == 0) return {};
  PENSTOCK_TRY(device_.sync(written_first_, written_end_ - written_first_));
  written_first_ = UINT64_MAX;
  written_end_ = 0;
  return {};
}

Result<void> Checkpoint::commit(std::uint64_t tag) {
  PENSTOCK_TRY(flush());
  const auto guard = PENSTOCK_TRY(arena_->pool().lock());
  PENSTOCK_TRY(line_before_begun());
  PairLine next;
  next.words[0] = tag;
  lines_.publish_line(begun_, next);  // pairs with valid(): from here on this version is valid
  device_.full_fence();
  PENSTOCK_TRY(lines_.sync(begun_));
  begun_ = 0;
  return {};
}

Result<void> Checkpoint::read(std::uint64_t version, void* to, std::uint64_t offset,
                              std::uint64_t bytes) const {
  PENSTOCK_TRY(check_range(offset, bytes));
  const std::uint64_t from = copy(version) + offset;
  device_.invalidate(from, bytes);
  device_.load_fence();
  device_.load_bulk(from, to, bytes);
  const auto now = PENSTOCK_TRY(line());
  if (now.step == version) return {};
  return fail(ErrorCode::unavailable,
              "version {} of checkpoint \"{}\" was asked for, but {} is valid: ask for the valid "
              "version and read "
              "again",
              version, object_.name, now.step);
}

}  // namespace penstock::persist
