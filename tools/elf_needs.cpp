#include "elf_needs.hpp"

#include <elf.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstring>
#include <optional>

#include "base/format.hpp"

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
  std::optional<Elf64_Phdr> dynamic;

  std::optional<std::uint64_t> file_offset(std::uint64_t address) const {
    for (const Elf64_Phdr& load : loads) {
      if (address >= load.p_vaddr && address - load.p_vaddr < load.p_filesz) {
        return load.p_offset + (address - load.p_vaddr);
      }
    }
    return std::nullopt;
  }
};

std::optional<ProgramHeaders> find_program_headers(const File& file) {
  const auto header = file.read_at<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_phentsize != sizeof(Elf64_Phdr)) {
    return std::nullopt;
  }
  ProgramHeaders headers;
  for (std::uint32_t i = 0; i < header->e_phnum; ++i) {
    const auto segment = file.read_at<Elf64_Phdr>(header->e_phoff + i * sizeof(Elf64_Phdr));
    if (!segment) return std::nullopt;
    if (segment->p_type == PT_LOAD) headers.loads.push_back(*segment);
    if (segment->p_type == PT_DYNAMIC) headers.dynamic = *segment;
  }
  return headers;
}

}  // namespace

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
