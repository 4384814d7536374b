// A file for the result of long work. It is opened before the work begins, so that the result is
// not lost because the file cannot be written.
#pragma once

#include <string>
#include <string_view>

#include "base/status.hpp"
#include "base/unique_fd.hpp"

namespace penstock::base {

class OutputFile {
 public:
  /// Creates the file if it is absent, and leaves its contents alone until write(). Path "": no
  /// file. Errors: permission, which names the path.
  static Result<OutputFile> open(const std::string& path);

  OutputFile(OutputFile&& other) noexcept = default;
  OutputFile& operator=(OutputFile&& other) noexcept;
  /// Removes a file that open() created if nothing was written.
  ~OutputFile() { remove_unused(); }

  /// Replaces the contents of the file. Does nothing without a file. Errors: permission.
  Result<void> write(std::string_view text);
  const std::string& path() const { return path_; }

 private:
  OutputFile(std::string path, UniqueFd fd, bool made)
      : path_(std::move(path)), fd_(std::move(fd)), made_(made) {}
  void remove_unused() const;

  std::string path_;
  UniqueFd fd_;
  bool made_ = false;  ///< open() created the file, and nothing was written yet
};

}  // namespace penstock::base
