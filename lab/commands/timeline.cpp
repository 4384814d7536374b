#include "timeline.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include "base/format.hpp"

namespace penstock::tools {

namespace {

using coll::TraceSpan;

struct TraceFile {
  std::string path, host, boot;
  std::uint64_t pid = 0, monotonic_ns = 0, wall_ns = 0, dropped = 0;
  std::vector<TraceSpan> spans;
};

std::optional<coll::StepKind> kind_of(const std::string& name) {
  for (int i = 0; i <= static_cast<int>(coll::StepKind::release); ++i)
    if (name == coll::name_of(static_cast<coll::StepKind>(i)))
      return static_cast<coll::StepKind>(i);
  return std::nullopt;
}

/// Throws nlohmann::json's exceptions if the line is not a span.
TraceSpan span_of(const Json& line) {
  const auto kind = kind_of(line.at("step").get<std::string>());
  if (!kind) throw std::invalid_argument("no such step: " + line.at("step").get<std::string>());
  TraceSpan span{.begin_ns = line.at("begin_ns"),
                 .end_ns = line.at("end_ns"),
                 .bytes = line.at("bytes"),
                 .communicator = line.at("communicator"),
                 .number = line.at("number"),
                 .rank = line.at("rank"),
                 .peer = line.at("peer"),
                 .chunk = line.at("chunk"),
                 .kind = *kind,
                 .lane = line.at("lane") == "write" ? coll::Lane::write : coll::Lane::read};
  const int device = line.at("device");
  if (device >= 0) span.device = static_cast<std::uint16_t>(device);
  if (span.end_ns < span.begin_ns) throw std::invalid_argument("it ends before it begins");
  return span;
}

Result<TraceFile> read_file(const std::string& path) {
  TraceFile found{.path = path};
  std::ifstream file(path);
  std::size_t number = 0;
  try {
    for (std::string text; std::getline(file, text);) {
      ++number;
      const Json line = Json::parse(text);
      if (number > 1) {
        found.spans.push_back(span_of(line));
        continue;
      }
      if (line.at("penstock_trace") != 1)
        throw std::invalid_argument("this command knows version 1");
      found.host = line.at("host");
      found.boot = line.at("boot");
      found.pid = line.at("pid");
      found.monotonic_ns = line.at("monotonic_ns");
      found.wall_ns = line.at("wall_ns");
      found.dropped = line.at("dropped");
    }
  } catch (const std::exception& wrong) {
    return fail(ErrorCode::wrong_format, "{}, line {}: is no trace of Penstock: {}", path, number,
                base::printable(wrong.what()));
  }
  if (number == 0) return fail(ErrorCode::wrong_format, "{} is empty", path);
  return found;
}

Result<std::vector<TraceFile>> read_files(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code failed;
  for (const auto& each : std::filesystem::directory_iterator(folder, failed)) {
    const std::string name = each.path().filename().string();
    if (name.starts_with("trace.") && name.ends_with(".jsonl"))
      paths.push_back(each.path().string());
  }
  if (paths.empty())
    return fail(ErrorCode::not_found,
                "{} holds no trace.*.jsonl{}: run the job with PENSTOCK_TRACE={}, a folder that "
                "exists on each host; a process that is killed leaves none",
                folder, failed ? ": " + failed.message() : "", base::shell_quote(folder));
  std::sort(paths.begin(), paths.end());
  std::vector<TraceFile> files;
  for (const std::string& path : paths) files.push_back(PENSTOCK_TRY(read_file(path)));
  return files;
}

/// The communicator with the most ranks; of several the one used first.
std::uint32_t widest(const std::vector<TraceFile>& files) {
  std::map<std::uint32_t, std::set<std::uint32_t>> ranks;
  for (const TraceFile& file : files)
    for (const TraceSpan& span : file.spans) ranks[span.communicator].insert(span.rank);
  std::uint32_t best = 0;
  std::size_t most = 0;
  for (const auto& [communicator, its] : ranks)
    if (its.size() > most) best = communicator, most = its.size();
  return best;
}

void begin_at_zero(std::vector<TraceSpan>& spans) {
  std::uint64_t first = ~0ull;
  for (const TraceSpan& span : spans) first = std::min(first, span.begin_ns);
  for (TraceSpan& span : spans) span.begin_ns -= first, span.end_ns -= first;
  std::stable_sort(spans.begin(), spans.end(), [](const auto& one, const auto& other) {
    return one.begin_ns < other.begin_ns;
  });
}

/// Adds the spans of a process, by its rank in the widest communicator; threads of a process may
/// have several ranks.
void add_file(Timeline& timeline, const TraceFile& file, std::uint32_t world,
              std::optional<std::uint32_t> call) {
  if (file.spans.empty()) return;
  const auto own = std::find_if(file.spans.begin(), file.spans.end(),
                                [&](const TraceSpan& span) { return span.communicator == world; });
  const std::uint32_t first = (own == file.spans.end() ? file.spans.begin() : own)->rank;
  timeline.dropped += file.dropped;
  const std::uint64_t shift = timeline.several_hosts ? file.wall_ns - file.monotonic_ns : 0;
  for (TraceSpan span : file.spans) {
    if (call && (span.number != *call || span.communicator != world)) continue;
    if (span.communicator != world) span.rank = first;
    timeline.ranks[span.rank] =
        base::printable(fmt::format("rank {} ({}, {})", span.rank, file.host, file.pid));
    span.begin_ns += shift;
    span.end_ns += shift;
    timeline.spans.push_back(span);
  }
}

std::uint32_t last_call(const std::vector<TraceFile>& files, std::uint32_t world) {
  std::uint32_t last = 0;
  for (const TraceFile& file : files)
    for (const TraceSpan& span : file.spans)
      if (span.communicator == world) last = std::max(last, span.number);
  return last;
}

}  // namespace

Result<Timeline> read_timeline(const std::string& folder, std::optional<std::uint32_t> call) {
  const auto files = PENSTOCK_TRY(read_files(folder));
  Timeline timeline{.title = call ? fmt::format("collective {}", *call) : "collectives"};
  timeline.several_hosts = std::any_of(files.begin(), files.end(), [&](const TraceFile& file) {
    return file.boot != files[0].boot;
  });
  const std::uint32_t world = widest(files);
  for (const TraceFile& file : files) add_file(timeline, file, world, call);
  if (timeline.spans.empty() && call)
    return fail(ErrorCode::not_found,
                "{} has no collective {}: they count from 1, and the last is {}", folder, *call,
                last_call(files, world));
  if (timeline.spans.empty())
    return fail(ErrorCode::not_found, "{} has no steps of a collective", folder);
  begin_at_zero(timeline.spans);
  return timeline;
}

Timeline modelled_timeline(std::string title, std::vector<TraceSpan> spans) {
  Timeline timeline{.title = std::move(title), .spans = std::move(spans)};
  for (const TraceSpan& span : timeline.spans)
    timeline.ranks[span.rank] = fmt::format("rank {} (modelled)", span.rank);
  begin_at_zero(timeline.spans);
  return timeline;
}

Result<base::OutputFile> open_timeline(const std::string& path) {
  if (!path.ends_with(".json") && !path.ends_with(".svg"))
    return fail(ErrorCode::invalid_argument,
                "{}: a picture is written to FILE.svg, and what Perfetto opens to FILE.json", path);
  return base::OutputFile::open(path);
}

Result<void> write_timeline(base::OutputFile& file, const Timeline& timeline) {
  if (file.path().ends_with(".json")) return write_json(file, chrome_trace(timeline));
  return file.write(PENSTOCK_TRY(svg(timeline)));
}

}  // namespace penstock::tools
