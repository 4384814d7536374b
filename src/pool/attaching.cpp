#include "pool/attaching.hpp"

#include "base/clock.hpp"
#include "pool/checksummed_line.hpp"
#include "pool/lease.hpp"

namespace penstock::pool {

AttachingLine AttachingTable::next(std::uint32_t number, const HostIdentity& host,
                                   const ProcessIdentity& process, std::uint64_t id) const {
  // tokens hold 48 bits of it: an overwritten value must not make all later ones too great
  constexpr std::uint64_t greatest_generation = std::uint64_t{1} << 47;
  AttachingLine before;
  const bool whole =
      id != 0 ||
      observe_checksummed_line<AttachingLine>(memory_, base_, place(number), &before).has_value();
  // A process that died while writing the line had the generation in it or, if that word is
  // missing, the next one. It may have been declared dead by now.
  const std::uint64_t later = before.generation % greatest_generation + (whole ? 1 : 2);
  return {.generation = id != 0 ? id : later,
          .beat = 1,
          .pid = static_cast<std::uint32_t>(process.pid),
          .unlocked = id != 0 ? 0u : 1u,
          .start_time = process.start_time,
          .scope = process.scope,
          .file = process.pool_file,
          .boot_id = host.boot_id};
}

void AttachingTable::publish(std::uint64_t number, const AttachingLine& line) const {
  publish_checksummed_line(memory_, base_, place(number), line);
}

void AttachingTable::publish_before_loads(std::uint64_t number, const AttachingLine& line) const {
  publish(number, line);
  memory_.full_fence();
}

/// Repeats the look if the process was stopped after it: the visit may have been declared dead and
/// the line have a new owner.
void AttachingTable::leave(std::uint64_t token) const {
  const std::uint64_t number = attaching_number_of(token);
  std::optional<AttachingLine> line;
  for (std::uint64_t since_ns = 0; !is_recent(since_ns);) {
    since_ns = base::now_ns();
    line = read(number);
    if (!line || line->generation != generation_of(token)) return;
  }
  line->beat = 0;
  line->unlocked = 0;
  publish(number, *line);
  memory_.store_fence();
}

void Visit::beat(bool unlocked) {
  ++line_.beat;
  line_.unlocked = unlocked ? 1 : 0;
  table_.publish(number_, line_);
}

std::optional<AttachingLine> AttachingTable::read(std::uint64_t number) const {
  if (number >= lines_) return std::nullopt;
  auto line = observe_checksummed_line<AttachingLine>(memory_, base_, place(number));
  if (!line || line->generation == 0) return std::nullopt;
  return line;
}

std::vector<std::uint32_t> AttachingTable::nodes_attaching_unlocked() const {
  std::vector<std::uint32_t> found;
  memory_.invalidate(base_ + place(0), nodes_ * sizeof(AttachingLine));
  memory_.load_fence();
  for (std::uint32_t node = 0; node < nodes_; ++node) {
    const auto line = load_checksummed_line<AttachingLine>(memory_, base_, place(node));
    if (!line || line->unlocked != 0) found.push_back(node);
  }
  return found;
}

AttachingTable::Visit AttachingTable::look(std::uint64_t number) const {
  Visit visit;
  visit.whole = observe_checksummed_line<AttachingLine>(memory_, base_, place(number), &visit.line)
                    .has_value();
  return visit;
}

std::vector<std::optional<AttachingLine>> AttachingTable::read_names() const {
  std::vector<std::optional<AttachingLine>> found;
  memory_.invalidate(base_ + place(nodes_), (lines_ - nodes_) * sizeof(AttachingLine));
  memory_.load_fence();
  for (std::uint64_t number = nodes_; number < lines_; ++number) {
    auto line = load_checksummed_line<AttachingLine>(memory_, base_, place(number));
    if (line && line->generation == 0) line = std::nullopt;
    found.push_back(line);
  }
  return found;
}

}  // namespace penstock::pool
