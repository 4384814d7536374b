#include "elf_file.hpp"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <sstream>

#include "base/format.hpp"
#include "locations.hpp"
#include "program_output.hpp"

namespace penstock::tools {
namespace {

class File {
 public:
  explicit File(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  bool is_open() const { return fd_ >= 0; }

  template <class T>
  std::optional<T> read_at(std::uint64_t offset) const {
    T value;
    if (pread(fd_, &value, sizeof value, static_cast<off_t>(offset)) != sizeof value) {
      return std::nullopt;
    }
    return value;
  }
  std::string text_at(std::uint64_t offset) const {
    char text[256] = {};
    const auto got = pread(fd_, text, sizeof text - 1, static_cast<off_t>(offset));
    return got > 0 ? std::string(text) : std::string();
  }

 private:
  int fd_;
};

struct ProgramHeaders {
  std::vector<Elf64_Phdr> loads;
  std::optional<Elf64_Phdr> dynamic, interpreter;

  std::optional<std::uint64_t> file_offset(std::uint64_t address) const {
    for (const Elf64_Phdr& load : loads) {
      if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz) {
        return load.p_offset + (address - load.p_vaddr);
      }
    }
    return std::nullopt;
  }
};

std::optional<Elf64_Ehdr> find_header(const File& file) {
  const auto header = file.read_at<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_phentsize != sizeof(Elf64_Phdr)) {
    return std::nullopt;
  }
  return header;
}

std::optional<ProgramHeaders> find_program_headers(const File& file) {
  const auto header = find_header(file);
  if (!header) return std::nullopt;
  ProgramHeaders headers;
  for (std::uint32_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = file.read_at<Elf64_Phdr>(header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) return std::nullopt;
    if (segment->p_type == PT_LOAD) headers.loads.push_back(*segment);
    if (segment->p_type == PT_DYNAMIC) headers.dynamic = *segment;
    if (segment->p_type == PT_INTERP) headers.interpreter = *segment;
  }
  return headers;
}

/// The program's loader; "" if it names none, as a library does.
std::string loader_of(const std::string& program) {
  const File file(program);
  if (!file.is_open()) return "";
  const auto headers = find_program_headers(file);
  if (!headers || !headers->interpreter) return "";
  return file.text_at(headers->interpreter->p_offset);
}

/// Only those of the system are run: a file may name any program as its loader.
bool is_glibc_loader(const std::string& loader) {
  const std::string path = resolved(loader);
  return loader.find("/ld-linux") != std::string::npos &&
         (path.starts_with("/lib") || path.starts_with("/usr/lib"));
}

/// Asks glibc's loader. Each line of its answer is "NAME => PATH (ADDRESS)", "NAME => not found",
/// or "PATH (ADDRESS)" for a library that is named by its path.
std::vector<SharedLibrary> ask_loader(const std::string& loader, const std::string& program) {
  std::vector<SharedLibrary> libraries;
  std::istringstream answer(program_output({loader, "--list", program}));
  for (std::string line; std::getline(answer, line);) {
    line.erase(0, line.find_first_not_of(" \t"));
    const auto arrow = line.find(" => ");
    const std::string found = arrow == std::string::npos ? line : line.substr(arrow + 4);
    SharedLibrary library;
    constexpr std::string_view complaint = "error while loading shared libraries: ";
    if (const auto at = line.find(complaint); at != std::string::npos) {
      const std::string rest = line.substr(at + complaint.size());
      libraries.push_back({rest.substr(0, rest.find(": ")), "", true, program});
      continue;
    }
    library.absent = found == "not found";
    if (found.starts_with("/")) library.path = found.substr(0, found.rfind(" ("));
    library.name = arrow == std::string::npos ? library.path : line.substr(0, arrow);
    if (!library.name.empty()) libraries.push_back(std::move(library));
  }
  return libraries;
}

}  // namespace

std::vector<std::string> elf_imports(const std::string& path) {
  const File file(path);
  std::vector<std::string> names;
  if (!file.is_open()) return names;
  const auto header = find_header(file);
  if (!header || header->e_shentsize != sizeof(Elf64_Shdr)) return names;
  const auto section = [&](std::uint32_t i) {
    return file.read_at<Elf64_Shdr>(header->e_shoff + i * sizeof(Elf64_Shdr));
  };
  for (std::uint32_t i = 0; i < header->e_shnum; ++i) {
    const auto symbols = section(i);
    if (!symbols) return names;
    if (symbols->sh_type != SHT_DYNSYM) continue;
    const auto strings = section(symbols->sh_link);
    if (!strings) return names;
    const std::uint64_t count = symbols->sh_size / sizeof(Elf64_Sym);
    for (std::uint64_t k = 0; k < count; ++k) {
      const auto symbol = file.read_at<Elf64_Sym>(symbols->sh_offset + k * sizeof(Elf64_Sym));
      if (!symbol) return names;
      if (symbol->st_shndx != SHN_UNDEF || symbol->st_name == 0) continue;
      names.push_back(file.text_at(strings->sh_offset + symbol->st_name));
    }
  }
  return names;
}

Result<std::vector<SharedLibrary>> shared_libraries(const std::string& program) {
  const auto own = PENSTOCK_TRY(elf_needs(program));
  const std::string loader = loader_of(program);
  if (loader.empty()) return fail(ErrorCode::wrong_format, "{} is linked statically", program);
  std::vector<SharedLibrary> libraries;
  if (is_glibc_loader(loader)) libraries = ask_loader(loader, program);
  if (libraries.empty()) {
    for (const std::string& name : own) libraries.push_back({name, "", false, program});
    return libraries;
  }
  const auto note_user = [&libraries](const std::string& user,
                                      const std::vector<std::string>& needs) {
    for (SharedLibrary& library : libraries) {
      const bool named = std::find(needs.begin(), needs.end(), library.name) != needs.end();
      if (named && library.needed_by.empty()) library.needed_by = user;
    }
  };
  note_user(program, own);
  for (const SharedLibrary& library : std::vector<SharedLibrary>(libraries)) {
    if (library.path.empty()) continue;
    if (const auto needs = elf_needs(library.path)) note_user(library.path, *needs);
  }
  return libraries;
}

Result<std::vector<std::string>> elf_needs(const std::string& path) {
  const File file(path);
  if (!file.is_open())
    return fail(ErrorCode::not_found, "{} cannot be read: {}", path, strerror(errno));
  const auto headers = find_program_headers(file);
  if (!headers || !headers->dynamic) {
    return fail(ErrorCode::wrong_format, "{} is not a dynamically linked 64-bit ELF file", path);
  }
  std::vector<std::uint64_t> names;
  std::optional<std::uint64_t> strings;
  const std::uint64_t count = headers->dynamic->p_filesz / sizeof(Elf64_Dyn);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto entry = file.read_at<Elf64_Dyn>(headers->dynamic->p_offset + i * sizeof(Elf64_Dyn));
    if (!entry || entry->d_tag == DT_NULL) break;
    if (entry->d_tag == DT_NEEDED) names.push_back(entry->d_un.d_val);
    if (entry->d_tag == DT_STRTAB) strings = headers->file_offset(entry->d_un.d_ptr);
  }
  if (!strings) return fail(ErrorCode::wrong_format, "{} has no string table", path);
  std::vector<std::string> needs;
  for (std::uint64_t name : names) needs.push_back(file.text_at(*strings + name));
  return needs;
}

}  // namespace penstock::tools
