#include "coarrays.hpp"

#include <link.h>

#include <cstring>
#include <string_view>

namespace penstock::mpi {

namespace {

/// A message text in OpenCoarrays' library. The compiler wrapper links the library into the
/// program, where dlsym cannot find its functions, so we look for the text.
constexpr std::string_view in_program = "caf_mpi-lib runtime message";

bool holds_message(const dl_phdr_info& object) {
  for (const ElfW(Phdr)* part = object.dlpi_phdr; part != object.dlpi_phdr + object.dlpi_phnum;
       ++part) {
    const bool constants = part->p_type == PT_LOAD && (part->p_flags & (PF_R | PF_W)) == PF_R;
    if (!constants) continue;
    const auto* const from = reinterpret_cast<const char*>(object.dlpi_addr + part->p_vaddr);
    if (::memmem(from, part->p_filesz, in_program.data(), in_program.size()) != nullptr)
      return true;
  }
  return false;
}

bool is_shared_library(std::string_view path) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return name.starts_with("libcaf_") && !name.starts_with("libcaf_single");
}

int look_at(dl_phdr_info* object, std::size_t, void*) {
  const std::string_view path = object->dlpi_name;
  if (!path.empty()) return is_shared_library(path) ? 1 : 0;
  static const bool is_program = holds_message(*object);
  return is_program ? 1 : 0;
}

}  // namespace

bool has_coarrays() {
  return ::dl_iterate_phdr(look_at, nullptr) != 0;
}

}  // namespace penstock::mpi
