// Suggests the word that a misspelt one may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace penstock::base {

/// The one of `known` that differs least from `word`; "" when none is near: more than a third of
/// the letters mistyped is another word, not a misspelling.
std::string nearest(std::string_view word, std::span<const std::string> known);

}  // namespace penstock::base
