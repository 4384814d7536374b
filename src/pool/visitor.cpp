#include "pool/visitor.hpp"

#include "pool/sealed_line.hpp"

namespace penstock::pool {

std::uint64_t VisitorTable::enter(std::uint32_t name, const HostIdentity& host,
                                  const ProcessIdentity& process) const {
  VisitorLine before;
  observe_sealed_line<VisitorLine>(memory_, base_, place(name), &before);
  const VisitorLine now{.generation = before.generation + 1,
                        .beat = 1,
                        .pid = process.pid,
                        .start_time = process.start_time,
                        .pid_namespace = process.pid_namespace,
                        .boot_id = host.boot_id};
  publish_sealed_line(memory_, base_, place(name), now);
  memory_.order();
  return visitor_token(now.generation, name);
}

void VisitorTable::beat(std::uint32_t name) const {
  auto line = read(name);
  if (!line) return;
  ++line->beat;
  publish_sealed_line(memory_, base_, place(name), *line);
}

std::optional<VisitorLine> VisitorTable::read(std::uint64_t name) const {
  if (name >= names_) return std::nullopt;
  auto line = observe_sealed_line<VisitorLine>(memory_, base_, place(name));
  if (!line || line->generation == 0) return std::nullopt;
  return line;
}

}  // namespace penstock::pool
