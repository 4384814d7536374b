#include "device/spec.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <filesystem>

#include "base/format.hpp"

namespace penstock::device {

namespace {

constexpr std::string_view shm_prefix = "shm:";
constexpr std::size_t max_shm_name_bytes = 200;
constexpr const char* forms = "/dev/daxX.Y, a file path or shm:NAME, several joined by commas";

/// Devices and links to them. A file created there by mistake would be memory of this host alone.
bool is_device_path(std::string_view path) {
  return path.starts_with("/dev/") && !path.starts_with("/dev/shm/") &&
         !path.starts_with("/dev/hugepages/");
}

/// The target of the link at `path`, even if it does not exist yet: a pool that is made or removed
/// by a link is made or removed there. `path` itself if it is no link, if the link may not be
/// followed, or if its target has no path; then opening it reports the error.
std::string followed(const std::string& path) {
  constexpr int deepest = 40;  // as in the kernel
  struct stat there, reached;
  const bool exists = ::stat(path.c_str(), &there) == 0;
  if (!exists && errno != ENOENT) return path;
  std::filesystem::path at = path;
  for (int links = 0; links < deepest; ++links) {
    std::error_code no_link, no_folder;
    const std::filesystem::path target = std::filesystem::read_symlink(at, no_link);
    if (no_link) break;
    at = at.parent_path() / target;  // an absolute target replaces the whole path
    const auto folder = std::filesystem::canonical(at.parent_path(), no_folder);
    if (!no_folder) at = folder / at.filename();  // the usual form, without ".."
  }
  if (!exists) return at.string();
  const bool same = ::stat(at.c_str(), &reached) == 0 && reached.st_dev == there.st_dev &&
                    reached.st_ino == there.st_ino;
  return same ? at.string() : path;
}

Result<Part> parse_part(std::string_view text, std::string_view spec) {
  Part part{.text = std::string(text)};
  if (text.starts_with(shm_prefix)) {
    const std::string_view name = text.substr(shm_prefix.size());
    const bool plain = std::all_of(name.begin(), name.end(), [](unsigned char c) {
      return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
    });
    if (name.empty() || !plain || name.size() > max_shm_name_bytes) {
      return fail(ErrorCode::invalid_argument,
                  "\"{}\" in pool \"{}\": NAME of shm:NAME is 1 to {} letters, digits, '-', '_' "
                  "or '.', such as shm:demo",
                  text, spec, max_shm_name_bytes);
    }
    part.kind = Part::Kind::shm;
    part.named = fmt::format("/dev/shm/penstock.{}", name);
    return part;
  }
  part.named = std::string(text);
  if (is_device_path(text)) {
    part.kind = Part::Kind::devdax;
    return part;
  }
  // a bare word is more often a forgotten "shm:" than a file in the current directory
  if (text.find('/') == std::string_view::npos) {
    return fail(ErrorCode::invalid_argument,
                "\"{0}\" in pool \"{1}\" is neither a path nor shm:NAME; write shm:{0} or ./{0}",
                text, spec);
  }
  part.kind = Part::Kind::file;
  return part;
}

}  // namespace

Result<std::vector<Part>> parse_spec(std::string_view spec) {
  if (spec.empty()) {
    return fail(ErrorCode::invalid_argument, "no pool was named; write {} (or set PENSTOCK_POOL)",
                forms);
  }
  std::vector<Part> parts;
  for (std::size_t begin = 0; begin <= spec.size();) {
    const std::size_t comma = std::min(spec.find(',', begin), spec.size());
    const std::string_view text = spec.substr(begin, comma - begin);
    if (text.empty()) {
      return fail(ErrorCode::invalid_argument, "pool \"{}\" has an empty part; write {}", spec,
                  forms);
    }
    auto part = parse_part(text, spec);
    if (!part) return unexpected(part.error());
    part->path = followed(part->named);
    for (const Part& other : parts) {
      if (other.path == part->path) {
        return fail(ErrorCode::invalid_argument,
                    "pool \"{}\" names \"{}\" twice; name each part once", spec, text);
      }
    }
    parts.push_back(std::move(*part));
    begin = comma + 1;
  }
  if (parts.size() > max_parts) {
    return fail(ErrorCode::invalid_argument, "pool \"{}\" has {} parts, at most {} are possible",
                spec, parts.size(), max_parts);
  }
  return parts;
}

Result<std::string> absolute_spec(std::string_view spec) {
  auto parts = PENSTOCK_TRY(parse_spec(spec));
  std::string text;
  for (const Part& part : parts) {
    const bool is_file = part.kind == Part::Kind::file;
    text += text.empty() ? "" : ",";
    text += is_file ? std::filesystem::absolute(part.named).lexically_normal().string() : part.text;
  }
  return text;
}

}  // namespace penstock::device
