// Man pages and shell completion, written from the parser's tree.
#pragma once

#include <string>

#include "base/status.hpp"
#include "command_tree.hpp"

namespace penstock::tools {

/// The page of one command, as roff: penstock-pool-create(1).
std::string manual_page(const CommandText& command, const CommandText& root);
/// A script for `eval` or for the shell's folder of completions.
std::string bash_completion(const CommandText& root);
std::string zsh_completion(const CommandText& root);

/// Writes man/man1/*.1, bash-completion/completions/penstock and zsh/site-functions/_penstock below
/// `folder`. Errors: permission, which names the file that cannot be written.
Result<void> write_share(const CommandText& root, const std::string& folder);

}  // namespace penstock::tools
