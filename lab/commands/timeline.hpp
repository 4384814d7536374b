// The steps of the ranks in collectives over time: read from the files that processes leave
// (PENSTOCK_TRACE), or modelled; written for people to look at.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coll/trace.hpp"
#include "json.hpp"

namespace penstock::tools {

struct Timeline {
  std::string title;
  std::vector<coll::TraceSpan> spans;          ///< times are relative to the first begin
  std::map<std::uint32_t, std::string> ranks;  ///< describes each rank in words
  std::uint64_t dropped = 0;                   ///< spans that were lost for lack of room
  bool several_hosts = false;                  ///< their clocks differ as their wall clocks do
};

/// Reads the files "trace.*.jsonl" of a folder; `call`: only the collective with this number, from
/// 1. Errors: not_found if there is no file or no such call; wrong_format, which names file and
/// line.
Result<Timeline> read_timeline(const std::string& folder, std::optional<std::uint32_t> call);
/// The timeline of a model, whose times begin at 0.
Timeline modelled_timeline(std::string title, std::vector<coll::TraceSpan> spans);

/// Writes the format of Chrome's trace viewer, for ui.perfetto.dev: a process for each rank, with a
/// thread for each lane, and one for each device.
Json chrome_trace(const Timeline& timeline);
/// Errors: unavailable if there are more spans than a picture can show.
Result<std::string> svg(const Timeline& timeline);
/// Opens a file for a timeline: FILE.svg or FILE.json. Errors: invalid_argument for other names;
/// permission.
Result<base::OutputFile> open_timeline(const std::string& path);
/// Writes the format that the file's name implies. Errors: those of svg(); permission.
Result<void> write_timeline(base::OutputFile& file, const Timeline& timeline);

}  // namespace penstock::tools
