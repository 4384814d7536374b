// The commands of lab/ in a build without PENSTOCK_LAB: each says how to get it.
#include <CLI/CLI.hpp>
#include <string>

#include "command.hpp"

namespace penstock::tools {

namespace {

void add_absent(CLI::App& parent, const std::string& name, Action& chosen) {
  CLI::App* absent = parent.add_subcommand(name, "not in this build");
  absent->group("");  // --help does not list it
  absent->allow_extras();
  absent->callback([&chosen, name] {
    chosen = [name] {
      return report({ErrorCode::unavailable,
                     fmt::format("'{}' is not in this build, which was made without the lab: run "
                                 "'make build', or cmake -DPENSTOCK_LAB=ON",
                                 name)});
    };
  });
}

}  // namespace

void add_switch_command(CLI::App& app, Action& chosen) {
  add_absent(app, "switch", chosen);
}

void add_measurements(CLI::App& bench, Action& chosen) {
  for (const char* name : {"limits", "footprint", "stream", "tune"})
    add_absent(bench, name, chosen);
}

void add_model_command(CLI::App& app, Action& chosen) {
  add_absent(app, "model", chosen);
}

void add_timeline_command(CLI::App& app, Action& chosen) {
  add_absent(app, "timeline", chosen);
}

}  // namespace penstock::tools
