#include "scaling_traces.hpp"

#include <stdlib.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/format.hpp"

namespace penstock::tools {

namespace {

namespace fs = std::filesystem;

/// One rank's lines without waitAny. Errors: wrong_format if a line does not belong to `rank`.
Result<std::string> repaired(std::istream& file, const std::string& path, std::size_t rank) {
  std::string out;
  const std::string own = std::to_string(rank);
  std::int64_t begun = 0, open = 0;
  bool any = false;
  const auto wait_for_all = [&] {
    if (any && begun > 0) out += own + " waitall " + std::to_string(begun) + "\n";
    begun = open = 0;
    any = false;
  };
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string who, what;
    if (!(words >> who)) continue;
    words >> what;
    if (who != own || what.empty())
      return fail(ErrorCode::wrong_format,
                  "{} has the line '{}', and lines '{} ACTION ...' are needed: trace again by "
                  "smpirun -trace-ti",
                  path, base::printable(line.substr(0, 60)), own);
    if (what == "waitAny" || what == "waitany") {
      any = true;
      if (--open == 0) wait_for_all();
      continue;
    }
    const bool begins = what == "irecv" || what == "isend";
    if (begins) ++begun, ++open;
    if (what == "wait") --begun, --open;
    if (what == "waitall") begun = open = 0;
    if (what == "finalize") wait_for_all();
    out += line + "\n";
  }
  return out;
}

/// Counts actions in which all ranks take part.
std::size_t collectives_of(const std::string& trace) {
  static const std::set<std::string, std::less<>> own = {
      "init",  "finalize", "compute", "sleep", "send",      "isend",   "recv",
      "irecv", "wait",     "waitall", "test",  "comm_size", "location"};
  std::istringstream lines(trace);
  std::string rank, what, rest;
  std::size_t count = 0;
  while (lines >> rank >> what && std::getline(lines, rest)) count += !own.contains(what);
  return count;
}

/// A line of a trace for a message: "RANK WHAT WITH TAG ELEMENTS TYPE".
struct TraceAction {
  std::string line, rank, what, with;
  std::uint64_t bytes = 0;
};

/// The size for SMPI's numbers of types (double, int, char, short, long, float, byte); 1 if none is
/// given.
std::uint64_t bytes_of_type(const std::string& number) {
  constexpr std::array<std::uint64_t, 7> known{8, 4, 1, 2, 8, 4, 1};
  if (number.empty()) return 1;
  const std::uint64_t index = std::strtoull(number.c_str(), nullptr, 10);
  return index < known.size() ? known[index] : 8;
}

std::vector<TraceAction> actions_of(const std::string& trace) {
  std::vector<TraceAction> all;
  std::istringstream lines(trace);
  for (TraceAction one; std::getline(lines, one.line); one = {}) {
    std::istringstream words(one.line);
    std::string tag, type;
    std::uint64_t elements = 0;
    words >> one.rank >> one.what >> one.with >> tag >> elements >> type;
    one.bytes = elements * bytes_of_type(type);
    all.push_back(std::move(one));
  }
  return all;
}

}  // namespace

ScratchFolder::ScratchFolder() {
  std::error_code none;
  std::string name = (fs::temp_directory_path(none) / "penstock-scaling-XXXXXX").string();
  if (const char* made = ::mkdtemp(name.data()); made != nullptr) path_ = made;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

Result<void> write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text << std::flush;
  if (file) return {};
  return fail(ErrorCode::permission, "cannot write {}: make room, or name a folder of yours", path);
}

Result<std::string> write_traces(const std::string& folder, const std::vector<std::string>& ranks,
                                 const std::string& name) {
  if (folder.empty())
    return fail(ErrorCode::permission,
                "no temporary folder can be made: set TMPDIR to one of yours");
  std::string names;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const std::string path = fmt::format("{}/{}-{}.txt", folder, name, rank);
    PENSTOCK_TRY(write_file(path, ranks[rank]));
    names += path + "\n";
  }
  const std::string list = name == "rank" ? "traces" : name + "-traces";
  PENSTOCK_TRY(write_file(folder + "/" + list, names));
  return folder + "/" + list;
}

Result<std::vector<std::string>> read_traces(const std::string& list) {
  std::ifstream names(list);
  std::vector<std::string> ranks;
  for (std::string name; std::getline(names, name);) {
    if (name.empty()) continue;
    const fs::path path =
        fs::path(name).is_absolute() ? fs::path(name) : fs::path(list).parent_path() / name;
    std::ifstream file(path);
    if (!file || fs::is_directory(path))
      return fail(ErrorCode::not_found, "{} names {}, which cannot be read", list,
                  base::printable(path.string().substr(0, 200)));
    ranks.push_back(PENSTOCK_TRY(repaired(file, path.string(), ranks.size())));
  }
  for (std::size_t rank = 1; rank < ranks.size(); ++rank)
    if (collectives_of(ranks[rank]) != collectives_of(ranks[0]))
      return fail(
          ErrorCode::wrong_format,
          "{}: rank {} takes part in {} collectives and rank 0 in {}, so some involve only "
          "part of the ranks, which SimGrid's traces do not show: trace a program without them",
          list, rank, collectives_of(ranks[rank]), collectives_of(ranks[0]));
  if (!ranks.empty()) return ranks;
  return fail(ErrorCode::not_found,
              "{} names no traces: it is the file that smpirun -trace-ti -trace-file {} leaves",
              list, base::shell_quote(list));
}

std::string with_core_work(const std::string& trace, const CoreWork& work) {
  const std::vector<TraceAction> all = actions_of(trace);
  const auto is = [&](std::size_t at, const char* what, const std::string& with) {
    return at < all.size() && all[at].what == what && all[at].with == with;
  };
  std::string out;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const TraceAction& one = all[i];
    const std::string& self = one.rank;
    if (work.to_self && is(i, "irecv", self) && is(i + 1, "send", self) &&
        is(i + 2, "wait", self)) {
      out += fmt::format("{} compute {:.0f}\n", self, work.to_self(one.bytes));
      i += 2;
      continue;
    }
    if (work.posting && one.what == "irecv")
      out += fmt::format("{} compute {:.0f}\n", self, work.posting(one.bytes));
    out += one.line + "\n";
  }
  return out;
}

double flops_of(const std::string& trace) {
  double flops = 0;
  std::istringstream lines(trace);
  std::string rank, what, rest;
  while (lines >> rank >> what && std::getline(lines, rest))
    if (what == "compute") flops += std::strtod(rest.c_str(), nullptr);
  return flops;
}

}  // namespace penstock::tools
