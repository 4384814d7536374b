#include "pool/attaching.hpp"

#include "pool/checksummed_line.hpp"

namespace penstock::pool {

std::uint64_t AttachingTable::enter(std::uint32_t name, const HostIdentity& host,
                                    const ProcessIdentity& process) const {
  AttachingLine before;
  observe_checksummed_line<AttachingLine>(memory_, base_, place(name), &before);
  const AttachingLine now{.generation = before.generation + 1,
                          .beat = 1,
                          .pid = process.pid,
                          .start_time = process.start_time,
                          .pid_namespace = process.pid_namespace,
                          .boot_id = host.boot_id};
  publish_checksummed_line(memory_, base_, place(name), now);
  memory_.store_fence();
  return attaching_token(now.generation, name);
}

void AttachingTable::beat(std::uint32_t name) const {
  auto line = read(name);
  if (!line) return;
  ++line->beat;
  publish_checksummed_line(memory_, base_, place(name), *line);
}

std::optional<AttachingLine> AttachingTable::read(std::uint64_t name) const {
  if (name >= names_) return std::nullopt;
  auto line = observe_checksummed_line<AttachingLine>(memory_, base_, place(name));
  if (!line || line->generation == 0) return std::nullopt;
  return line;
}

}  // namespace penstock::pool
