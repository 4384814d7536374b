// A timeline as JSON for trace viewers, and as a picture.
#include <algorithm>

#include "base/format.hpp"
#include "command.hpp"
#include "timeline.hpp"

namespace penstock::tools {

namespace {

using coll::TraceSpan;

constexpr std::uint64_t first_device_pid = 1'000'000;
constexpr std::size_t max_drawn = 20'000;

std::string name_of(const TraceSpan& span) {
  switch (span.kind) {
    case coll::StepKind::move:
      return "move";
    case coll::StepKind::combine:
      return "combine";
    case coll::StepKind::publish:
    case coll::StepKind::ring:
      return fmt::format("{} {}", coll::name_of(span.kind), span.chunk);
    default:
      return fmt::format("{} {} of {}", coll::name_of(span.kind), span.chunk, span.peer);
  }
}

/// Assigns spans to rows so that no span of a row begins before the previous one has ended.
std::vector<std::size_t> rows_of(const std::vector<const TraceSpan*>& spans) {
  std::vector<std::uint64_t> ends;
  std::vector<std::size_t> rows;
  for (const TraceSpan* span : spans) {
    const auto free = std::find_if(ends.begin(), ends.end(),
                                   [&](std::uint64_t end) { return end <= span->begin_ns; });
    rows.push_back(static_cast<std::size_t>(free - ends.begin()));
    if (free == ends.end())
      ends.push_back(span->end_ns);
    else
      *free = span->end_ns;
  }
  return rows;
}

std::map<std::uint32_t, std::vector<const TraceSpan*>> by_device(const Timeline& timeline) {
  std::map<std::uint32_t, std::vector<const TraceSpan*>> devices;
  for (const TraceSpan& span : timeline.spans)
    if (span.device != TraceSpan::no_device) devices[span.device].push_back(&span);
  return devices;
}

Json named(std::uint64_t pid, std::optional<std::uint64_t> tid, const std::string& name) {
  Json event = {{"name", tid ? "thread_name" : "process_name"}, {"ph", "M"}, {"pid", pid}};
  if (tid) event["tid"] = *tid;
  event["args"] = {{"name", name}};
  return event;
}

Json complete(const TraceSpan& span, std::uint64_t pid, std::uint64_t tid) {
  const auto micro = [](std::uint64_t ns) { return static_cast<double>(ns) / 1000; };
  Json args = {{"rank", span.rank},   {"peer", span.peer},   {"chunk", span.chunk},
               {"bytes", span.bytes}, {"call", span.number}, {"communicator", span.communicator}};
  if (span.device != TraceSpan::no_device) args["device"] = span.device;
  return {{"name", name_of(span)},
          {"cat", coll::name_of(span.kind)},
          {"ph", "X"},
          {"ts", micro(span.begin_ns)},
          {"dur", micro(span.end_ns - span.begin_ns)},
          {"pid", pid},
          {"tid", tid},
          {"args", args}};
}

const char* colour_of(coll::StepKind kind) {
  switch (kind) {
    case coll::StepKind::publish:
      return "#d55e00";
    case coll::StepKind::copy:
      return "#0072b2";
    case coll::StepKind::combine:
      return "#009e73";
    case coll::StepKind::move:
      return "#cc79a7";
    case coll::StepKind::wait:
      return "#dddddd";
    case coll::StepKind::await_release:
      return "#bbbbbb";
    default:
      return "#333333";
  }
}

/// Rows of bars, one below the other.
class Drawing {
 public:
  explicit Drawing(const Timeline& timeline) {
    for (const TraceSpan& span : timeline.spans) end_ = std::max(end_, span.end_ns);
  }
  void row(const std::string& name) {
    body_ += fmt::format("<text x=\"4\" y=\"{}\">{}</text>\n", y_ + bar_height - 3, escaped(name));
    y_ += bar_height + gap;
  }
  /// Draws a bar below the last row's name.
  void bar(const TraceSpan& span, std::size_t row) {
    const double wide = std::max(0.3, x_of(span.end_ns) - x_of(span.begin_ns));
    const std::size_t top = y_ - bar_height - gap + row * (bar_height + gap);
    body_ += fmt::format(
        "<rect x=\"{:.2f}\" y=\"{}\" width=\"{:.2f}\" height=\"{}\" fill=\"{}\"><title>rank {}: "
        "{}, {}, {}</title></rect>\n",
        x_of(span.begin_ns), top, wide, bar_height, colour_of(span.kind), span.rank,
        escaped(name_of(span)), about(span.bytes),
        about_ns(static_cast<double>(span.end_ns - span.begin_ns)));
  }
  void more_rows(std::size_t count) { y_ += count * (bar_height + gap); }
  std::string text(const Timeline& timeline) const {
    std::string out = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" width=\"{}\" "
        "font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" "
        "fill=\"white\"/>\n<text x=\"4\" y=\"16\" font-size=\"14\">{}: {} from the first begin to "
        "the last end</text>\n",
        left + width + 40, y_ + 40, left + width + 40, escaped(timeline.title),
        about_ns(static_cast<double>(end_)));
    for (int i = 0; i <= 10; ++i) {
      const std::uint64_t at = end_ * static_cast<std::uint64_t>(i) / 10;
      out += fmt::format(
          "<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"24\" y2=\"{1}\" stroke=\"#eeeeee\"/>\n<text "
          "x=\"{0:.1f}\" y=\"{2}\" text-anchor=\"middle\">{3}</text>\n",
          x_of(at), y_, y_ + 14, about_ns(static_cast<double>(at)));
    }
    return out + body_ + legend() + "</svg>\n";
  }

 private:
  static constexpr std::size_t bar_height = 12, gap = 3, left = 190, width = 1000;
  double x_of(std::uint64_t ns) const {
    return left + static_cast<double>(width) * static_cast<double>(ns) /
                      static_cast<double>(std::max<std::uint64_t>(end_, 1));
  }
  static std::string escaped(const std::string& text) {
    std::string out;
    for (const char c : text) {
      if (c == '&') out += "&amp;";
      if (c == '<') out += "&lt;";
      if (c != '&' && c != '<') out += c;
    }
    return out;
  }
  std::string legend() const {
    std::string out;
    double x = left;
    for (int i = 0; i <= static_cast<int>(coll::StepKind::release); ++i) {
      const auto kind = static_cast<coll::StepKind>(i);
      out += fmt::format(
          "<rect x=\"{:.0f}\" y=\"{}\" width=\"10\" height=\"10\" fill=\"{}\"/><text x=\"{:.0f}\" "
          "y=\"{}\">{}</text>\n",
          x, y_ + 22, colour_of(kind), x + 14, y_ + 31, coll::name_of(kind));
      x += 100;
    }
    return out;
  }

  std::uint64_t end_ = 0;
  std::size_t y_ = 28;
  std::string body_;
};

}  // namespace

Json chrome_trace(const Timeline& timeline) {
  Json events = Json::array();
  for (const auto& [rank, name] : timeline.ranks) {
    events.push_back(named(rank, std::nullopt, name));
    events.push_back(named(rank, 0, "write"));
    events.push_back(named(rank, 1, "read"));
  }
  for (const TraceSpan& span : timeline.spans)
    events.push_back(complete(span, span.rank, span.lane == coll::Lane::write ? 0 : 1));
  for (const auto& [device, spans] : by_device(timeline)) {
    events.push_back(
        named(first_device_pid + device, std::nullopt, fmt::format("device {}", device)));
    const auto rows = rows_of(spans);
    for (std::size_t i = 0; i < spans.size(); ++i)
      events.push_back(complete(*spans[i], first_device_pid + device, rows[i]));
  }
  return {{"displayTimeUnit", "ns"},
          {"otherData", {{"title", timeline.title}, {"dropped", timeline.dropped}}},
          {"traceEvents", events}};
}

Result<std::string> svg(const Timeline& timeline) {
  if (timeline.spans.size() > max_drawn)
    return fail(ErrorCode::unavailable,
                "{} spans are more than the {} that a picture shows: choose a call by --call N, or "
                "write JSON and open it in ui.perfetto.dev",
                timeline.spans.size(), max_drawn);
  Drawing drawing(timeline);
  for (const auto& [rank, name] : timeline.ranks) {
    for (const coll::Lane lane : {coll::Lane::write, coll::Lane::read}) {
      drawing.row(fmt::format("{}, {}", name, lane == coll::Lane::write ? "write" : "read"));
      for (const TraceSpan& span : timeline.spans)
        if (span.rank == rank && span.lane == lane) drawing.bar(span, 0);
    }
  }
  for (const auto& [device, spans] : by_device(timeline)) {
    drawing.row(fmt::format("device {}", device));
    const auto rows = rows_of(spans);
    for (std::size_t i = 0; i < spans.size(); ++i) drawing.bar(*spans[i], rows[i]);
    drawing.more_rows(*std::max_element(rows.begin(), rows.end()));
  }
  return drawing.text(timeline);
}

}  // namespace penstock::tools
