// What the ranks of collectives did when: read from the files that processes leave
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
  std::vector<coll::TraceSpan> spans;          ///< times count from the first begin
  std::map<std::uint32_t, std::string> ranks;  ///< what each is, in words
  std::uint64_t dropped = 0;                   ///< spans that had no room
  bool several_hosts = false;                  ///< whose clocks differ by what their wall clocks do
};

/// Those of the files "trace.*.jsonl" of a folder; `call`: only the collective of this number, from
/// 1. Errors: not_found, without a file or such a call; wrong_format, which names file and line.
Result<Timeline> read_timeline(const std::string& folder, std::optional<std::uint32_t> call);
/// Of a model, whose times begin at 0.
Timeline modelled_timeline(std::string title, std::vector<coll::TraceSpan> spans);

/// In the form of Chrome's trace viewer, for ui.perfetto.dev: a process for each rank, with a
/// thread for each lane, and one for each device.
Json chrome_trace(const Timeline& timeline);
/// Errors: unavailable, when there are more spans than anyone can view.
Result<std::string> svg(const Timeline& timeline);
/// A file that a timeline can be written to: FILE.svg or FILE.json. Errors: invalid_argument for
/// another name; permission.
Result<base::OutputFile> open_timeline(const std::string& path);
/// In the form that the file's name asks for. Errors: those of svg(); permission.
Result<void> write_timeline(base::OutputFile& file, const Timeline& timeline);

}  // namespace penstock::tools
