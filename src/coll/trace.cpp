#include "coll/trace.hpp"

#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <memory>

#include "base/clock.hpp"
#include "base/env.hpp"
#include "base/format.hpp"
#include "base/log.hpp"
#include "pool/host_identity.hpp"

namespace penstock::coll {

namespace {

std::string text_of(const TraceSpan& span) {
  return fmt::format(
      "{{\"begin_ns\": {}, \"end_ns\": {}, \"step\": \"{}\", \"lane\": \"{}\", \"rank\": {}, "
      "\"peer\": {}, \"chunk\": {}, \"bytes\": {}, \"device\": {}, \"communicator\": {}, "
      "\"number\": {}}}\n",
      span.begin_ns, span.end_ns, name_of(span.kind), span.lane == Lane::write ? "write" : "read",
      span.rank, span.peer, span.chunk, span.bytes,
      span.device == TraceSpan::no_device ? -1 : int{span.device}, span.communicator, span.number);
}

}  // namespace

const char* name_of(StepKind kind) {
  constexpr std::array names = {"await_release", "publish", "ring",    "wait",
                                "copy",          "move",    "combine", "release"};
  return names[static_cast<std::size_t>(kind)];
}

Trace* Trace::of_process() {
  static const std::unique_ptr<Trace> trace = [] {
    const std::string folder = base::env_text("PENSTOCK_TRACE");
    return folder.empty() ? nullptr : std::make_unique<Trace>(folder, usual_capacity);
  }();
  return trace.get();
}

Trace::Trace(std::string folder, std::size_t capacity)
    : folder_(std::move(folder)), owner_(::getpid()), spans_(capacity) {}

Trace::~Trace() {
  if (owner_ != ::getpid() || count_.load() == 0) return;
  if (const auto written = write(); !written)
    base::log_line(base::Level::warn, written.error().message);
}

Result<std::string> Trace::write() const {
  const std::size_t all = count_.load(), kept = std::min(all, spans_.size());
  const auto host = PENSTOCK_TRY(pool::this_host());
  std::string path;
  std::FILE* file = nullptr;
  for (int again = 0; again < 100 && file == nullptr; ++again) {
    path = fmt::format("{}/trace.{}.{}{}.jsonl", folder_, host.host, owner_,
                       again == 0 ? std::string() : fmt::format(".{}", again));
    file = std::fopen(path.c_str(), "wx");
    if (file == nullptr && errno != EEXIST) break;
  }
  if (file == nullptr)
    return fail(ErrorCode::permission,
                "no trace is written: {}: {}; PENSTOCK_TRACE must name a folder of yours that "
                "exists: mkdir -p {}",
                path, strerror(errno), base::shell_quote(folder_));
  std::string text = fmt::format(
      "{{\"penstock_trace\": 1, \"host\": \"{}\", \"boot\": \"{}\", \"pid\": {}, \"monotonic_ns\": "
      "{}, \"wall_ns\": {}, \"spans\": {}, \"dropped\": {}}}\n",
      host.host, pool::format_uuid(host.boot_id), owner_, base::now_ns(), base::wall_ns(), kept,
      all - kept);
  for (std::size_t i = 0; i < kept; ++i) text += text_of(spans_[i]);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if ((std::fclose(file) == 0) && written) return path;
  return fail(ErrorCode::permission, "the trace {} is not whole: {}", path, strerror(errno));
}

}  // namespace penstock::coll
