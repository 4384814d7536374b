// One part of a pool at the operating system: opened, measured, reserved, named.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.hpp"
#include "device/create_options.hpp"
#include "device/spec.hpp"

namespace penstock::device {

inline constexpr std::uint64_t page_bytes = 4096;
inline constexpr std::uint64_t huge_page_bytes = 2ull << 20;

/// Removes a file's name in the destructor.
class TemporaryName {
 public:
  TemporaryName() = default;
  explicit TemporaryName(std::string path) : path_(std::move(path)) {}
  TemporaryName(TemporaryName&& other) noexcept { std::swap(path_, other.path_); }
  TemporaryName& operator=(TemporaryName&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~TemporaryName() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct OpenPart {
  Part part;
  base::UniqueFd fd;
  TemporaryName temporary;  ///< of a file being created on a file system without unnamed files
  bool device = false;
  std::uint64_t bytes = 0;      ///< of the file or device
  std::uint64_t alignment = 0;  ///< of mappings
};

enum class Access { read, write };

/// Opens an existing part. `spec`: the pool that it belongs to. Errors: not_found, permission,
/// wrong_format, each with the fixing command.
Result<OpenPart> open_part(const Part& part, Access access, const std::string& spec);
Result<std::vector<OpenPart>> open_parts(const std::string& spec, Access access);

/// A file of `bytes` in the folder of `part`, with reserved space and without a name: it vanishes
/// when closed, on most file systems also when the process is killed. `reserved`: bytes at the
/// beginning that are reserved in a sparse file. Errors: no_space (needed, free, how to fix),
/// unavailable.
Result<OpenPart> reserve_part(const Part& part, std::uint64_t bytes,
                              std::uint64_t reserved = UINT64_MAX);
/// Sets permissions and group, then gives the file its name: from then on processes can attach.
/// Errors: already_exists unless `overwrite`.
Result<void> name_part(const OpenPart& part, const CreateOptions& options);

/// The kind of file that is now at the path of `part`.
enum class FileKind { absent, regular, device, other };
FileKind file_kind(const Part& part);
/// Decides by the name or the existing file: a link may have any name.
bool is_device(const Part& part);

}  // namespace penstock::device
