// penstock timeline: the collectives that the processes of a job recorded, as one picture.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "command.hpp"
#include "timeline.hpp"

namespace penstock::tools {

namespace {

struct TimelineArguments {
  std::string folder;
  std::vector<std::string> files;
  std::uint32_t call = 0;
};

int run_timeline(const TimelineArguments& arguments) {
  std::vector<base::OutputFile> files;
  for (const std::string& path : arguments.files) {
    auto file = open_timeline(path);
    if (!file) return report(file.error());
    files.push_back(std::move(*file));
  }
  const auto timeline = read_timeline(
      arguments.folder, arguments.call == 0 ? std::nullopt : std::optional(arguments.call));
  if (!timeline) return report(timeline.error());
  if (files.empty()) return print_json(chrome_trace(*timeline));
  for (base::OutputFile& file : files) {
    if (const auto written = write_timeline(file, *timeline); !written)
      return report(written.error());
    fmt::print("written: {}\n", file.path());
  }
  fmt::print("{} of {}{}{}\n", counted(timeline->spans.size(), "span"),
             counted(timeline->ranks.size(), "rank"),
             timeline->dropped == 0
                 ? ""
                 : fmt::format("; {} had no room and are missing", timeline->dropped),
             timeline->several_hosts ? "; of several hosts, by their wall clocks" : "");
  return exit_ok;
}

}  // namespace

void add_timeline_command(CLI::App& app, Action& chosen) {
  auto arguments = std::make_shared<TimelineArguments>();
  CLI::App* command = app.add_subcommand(
      "timeline", "show when each rank and device did what in collectives that were recorded");
  command
      ->add_option("FOLDER", arguments->folder,
                   "the folder that PENSTOCK_TRACE named for the job, with the files of all hosts")
      ->required();
  command->add_option("--output", arguments->files,
                      "write FILE.svg, a picture, or FILE.json, for ui.perfetto.dev and Chrome's "
                      "tracing; may be given again (default: the JSON, on standard output)");
  command
      ->add_option("--call", arguments->call,
                   "only the collective of this number, from 1, on the communicator of most ranks")
      ->check(CLI::Range(1, 1 << 30));
  command->callback(
      [&chosen, arguments] { chosen = [arguments] { return run_timeline(*arguments); }; });
}

}  // namespace penstock::tools
