// The parser's tree in words: the only source of --help, of shell completion and of the man pages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace CLI {
class App;
}

namespace penstock::tools {

/// The words in "mpich|openmpi"; empty for other values.
std::vector<std::string> choices_of(const std::string& value);

struct OptionText {
  std::vector<std::string> names;  ///< "-n", "--ranks"; an argument has one name, "SPEC"
  std::string value;               ///< "SIZE", "mpich|openmpi", "[=SECONDS]"; "" for a flag
  std::string meaning;
  bool is_argument = false;  ///< identified by its position
  bool required = false;
  bool repeats = false;  ///< takes all following words

  bool takes_next_word() const { return !value.empty() && !value.starts_with("["); }
  std::vector<std::string> choices() const { return choices_of(value); }
};

struct CommandText {
  std::vector<std::string> words;  ///< {"penstock", "pool", "create"}
  std::string meaning;
  std::vector<OptionText> options;  ///< arguments first
  std::vector<CommandText> subcommands;
  bool needs_subcommand = false;
  std::string footer;

  std::string name(char between) const;  ///< "penstock pool create"
  std::string usage() const;             ///< "penstock pool create [OPTIONS] SPEC"
};

/// Omits hidden parts (those in the group "").
CommandText describe(const CLI::App& command);
/// Returns the command and all commands below it, in the order of a walk.
std::vector<const CommandText*> all_of(const CommandText& command);

/// The exit statuses of a command: {"0", "..."} and so on, for the man pages and
/// docs/command-line.md.
struct ExitStatus {
  const char* value;
  const char* meaning;
};
const std::vector<ExitStatus>& exit_statuses();

/// Formats the text of --help in lines of `columns` columns.
std::string help_text(const CommandText& command, std::size_t columns);
/// Sets the output of --help for this command and for commands that are added to it from now on.
void set_help(CLI::App& app);

}  // namespace penstock::tools
