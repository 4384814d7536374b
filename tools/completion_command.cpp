// penstock completion bash | zsh; and the hidden penstock manual, which the build uses.
#include <fmt/core.h>
#include <CLI/CLI.hpp>

#include <memory>

#include "command.hpp"
#include "manual.hpp"

namespace penstock::tools {

void add_completion_command(CLI::App& app, Action& chosen) {
  CLI::App* command = app.add_subcommand(
      "completion", "print a script by which a shell completes penstock's words and options");
  auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "bash | zsh")->required()->type_name("bash|zsh");
  command->footer(
      "For one shell: eval \"$(penstock completion bash)\", or zsh, in ~/.bashrc or ~/.zshrc, "
      "there\n"
      "behind compinit. make install and the packages install both scripts and the man pages.");
  command->callback([&app, &chosen, shell] {
    chosen = [&app, shell] {
      const CommandText root = describe(app);
      fmt::print("{}", *shell == "bash" ? bash_completion(root) : zsh_completion(root));
      return exit_ok;
    };
  });
  CLI::App* manual = app.add_subcommand("manual", "write man pages and completion into a folder");
  manual->group("");
  auto folder = std::make_shared<std::string>();
  manual->add_option("FOLDER", *folder)->required();
  manual->callback([&app, &chosen, folder] {
    chosen = [&app, folder] {
      const auto written = write_share(describe(app), *folder);
      return written ? exit_ok : report(written.error());
    };
  });
}

}  // namespace penstock::tools
