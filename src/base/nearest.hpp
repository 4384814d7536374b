// Suggests the word that a misspelt one may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace penstock::base {

/// Returns the one of `known` that differs least from `word`; "" if none is near: with more than a
/// third of the letters changed it is another word, not a misspelling.
std::string nearest(std::string_view word, std::span<const std::string> known);

}  // namespace penstock::base
