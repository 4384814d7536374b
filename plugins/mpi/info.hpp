// Reads the values of an info object.
#pragma once

#include <optional>
#include <string>

#include "abi.hpp"

namespace penstock::mpi {

std::optional<std::string> info_value(Handle info, const char* key);
inline bool info_says_true(Handle info, const char* key) {
  return info_value(info, key) == "true";
}

}  // namespace penstock::mpi
