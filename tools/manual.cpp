#include "manual.hpp"

#include <fmt/core.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "base/env.hpp"
#include "base/format.hpp"
#include "version.hpp"

namespace penstock::tools {
namespace {

/// Escapes text for roff: no line may begin with a dot or a quote, and - means a hyphen.
std::string roff(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) {
      out += std::string("\\&") + c;
    } else {
      out += c;
    }
  }
  return out;
}

std::string bold(std::string_view text) {
  return "\\fB" + roff(text) + "\\fR";
}

std::string tagged(const std::string& tag, std::string_view text) {
  return fmt::format(".TP\n{}\n{}\n", tag, roff(text));
}

std::string label(const OptionText& option) {
  std::string text;
  for (const std::string& name : option.names) text += (text.empty() ? "" : ", ") + bold(name);
  if (option.is_argument || option.value.empty()) return text;
  return text + (option.value.starts_with("[") ? "" : " ") + "\\fI" + roff(option.value) + "\\fR";
}

std::string options(const CommandText& command, bool arguments) {
  std::string text;
  for (const OptionText& option : command.options) {
    if (option.is_argument == arguments)
      text += tagged(label(option), option.meaning + (option.required ? " (required)" : ""));
  }
  return text;
}

std::string environment() {
  std::string text = ".SH ENVIRONMENT\n";
  std::optional<base::Audience> group;
  for (const base::Variable& variable : base::variables()) {
    if (variable.audience == base::Audience::tests) continue;
    if (group != variable.audience)
      text += fmt::format(".SS {}\n", base::audience_name(variable.audience));
    group = variable.audience;
    text += tagged(
        bold(variable.name),
        fmt::format("{} [{}]{}", variable.meaning, variable.values,
                    *variable.fallback ? fmt::format(", default {}", variable.fallback) : ""));
  }
  text += tagged(bold("NO_COLOR"), "set to anything: no colour on a terminal either");
  return text;
}

/// Names the other pages, each once; `separator` before all but the first.
std::string see_also(const CommandText& command, const CommandText& root) {
  std::string text;
  for (const CommandText* each : all_of(root)) {
    const bool parent = each->words.size() + 1 == command.words.size() &&
                        command.name(' ').starts_with(each->name(' ') + " ");
    const bool child = command.words.size() + 1 == each->words.size() &&
                       each->name(' ').starts_with(command.name(' ') + " ");
    if (parent || child || (each == &root && &command != &root && !parent))
      text += fmt::format("{}{}(1)", text.empty() ? "" : ",\n", bold(each->name('-')));
  }
  return text;
}

Result<void> write(const std::filesystem::path& path, const std::string& text) {
  std::error_code failed;
  std::filesystem::create_directories(path.parent_path(), failed);
  std::ofstream file(path);
  file << text << std::flush;
  if (file) return {};
  return fail(ErrorCode::permission, "cannot write {}: name a folder of yours", path.string());
}

}  // namespace

std::string manual_page(const CommandText& command, const CommandText& root) {
  std::string title = command.name('-');
  for (char& c : title) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::string text =
      fmt::format(".TH {} 1 \"\" \"penstock {}\" \"Penstock\"\n", roff(title), PENSTOCK_VERSION);
  text += fmt::format(".SH NAME\n{} \\- {}\n", roff(command.name('-')), roff(command.meaning));
  text += fmt::format(".SH SYNOPSIS\n{}{}\n", bold(command.name(' ')),
                      roff(command.usage().substr(command.name(' ').size())));
  if (const std::string arguments = options(command, true); !arguments.empty())
    text += ".SH ARGUMENTS\n" + arguments;
  text += ".SH OPTIONS\n" + options(command, false);
  if (!command.subcommands.empty()) text += ".SH SUBCOMMANDS\n";
  for (const CommandText& below : command.subcommands)
    text += tagged(bold(below.words.back()), below.meaning);
  if (!command.footer.empty() && command.words.back() != "env")
    text += fmt::format(".SH NOTES\n.nf\n{}\n.fi\n", roff(command.footer));
  text += ".SH EXIT STATUS\n";
  for (const ExitStatus& status : exit_statuses())
    text += tagged(bold(status.value), status.meaning);
  if (&command == &root || command.words.back() == "env") text += environment();
  return text + ".SH SEE ALSO\n" + see_also(command, root) + "\n";
}

Result<void> write_share(const CommandText& root, const std::string& folder) {
  const std::filesystem::path share(folder);
  for (const CommandText* command : all_of(root))
    PENSTOCK_TRY(
        write(share / "man/man1" / (command->name('-') + ".1"), manual_page(*command, root)));
  PENSTOCK_TRY(
      write(share / "bash-completion/completions" / root.words.back(), bash_completion(root)));
  return write(share / "zsh/site-functions" / ("_" + root.words.back()), zsh_completion(root));
}

}  // namespace penstock::tools
