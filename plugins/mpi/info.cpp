#include "info.hpp"

#include <vector>

#include "pmpi.hpp"

namespace penstock::mpi {

std::optional<std::string> info_value(Handle info, const char* key) {
  if (info == constants().info_null) return std::nullopt;
  std::vector<char> text(static_cast<std::size_t>(constants().max_info_val) + 1);
  int found = 0;
  if (pmpi().Info_get_string != nullptr) {
    int bytes = static_cast<int>(text.size());
    pmpi().Info_get_string(info, key, &bytes, text.data(), &found);
  } else if (pmpi().Info_get != nullptr) {
    pmpi().Info_get(info, key, constants().max_info_val, text.data(), &found);
  }
  if (found == 0) return std::nullopt;
  return std::string(text.data());
}

}  // namespace penstock::mpi
