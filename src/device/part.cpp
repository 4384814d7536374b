#include "device/part.hpp"

#include <fcntl.h>
#include <grp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/env.hpp"
#include "base/format.hpp"
#include "device/devdax.hpp"
#include "device/growth.hpp"
#include "device/owner.hpp"

namespace penstock::device {

namespace {

std::string system_text(int error) {
  return std::strerror(error);
}

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

std::optional<gid_t> group_id(const std::string& name) {
  group entry, *found = nullptr;
  std::vector<char> buffer(65536);
  ::getgrnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found);
  if (found == nullptr) return std::nullopt;
  return found->gr_gid;
}

bool is_member_of(gid_t group) {
  if (group == ::getegid()) return true;
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(0, ::getgroups(0, nullptr))));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  return std::find(groups.begin(), groups.begin() + std::max(0, count), group) !=
         groups.begin() + std::max(0, count);
}

Error not_permitted(const Part& part, Access access) {
  struct stat status;
  if (::stat(part.path.c_str(), &status) != 0) {
    return Error{ErrorCode::permission,
                 fmt::format("{} cannot be reached by user {}: a folder above it is closed; run: "
                             "namei -l {}",
                             part.path, user_name(::geteuid()), base::shell_quote(part.path))};
  }
  // chmod helps only members of the group, and only if members may not open the file yet
  const bool member = is_member_of(status.st_gid) && (status.st_mode & 0060) != 0060;
  const std::string path = base::shell_quote(part.path);
  const std::string fix =
      member
          ? fmt::format("chmod 0660 {}", path)
          : fmt::format("chgrp {} {} && chmod 0660 {}, with a group of which user {} is a member",
                        group_name(::getegid()), path, path, user_name(::geteuid()));
  return Error{
      ErrorCode::permission,
      fmt::format("{} belongs to {}:{} with mode {:04o}, so user {} may not {} it; its "
                  "owner runs: {} (or replaces it: penstock pool create {} --group {} --overwrite)",
                  part.path, user_name(status.st_uid), group_name(status.st_gid),
                  status.st_mode & 07777, user_name(::geteuid()),
                  access == Access::write ? "attach" : "read", fix, base::shell_quote(part.text),
                  group_name(member ? status.st_gid : ::getegid()))};
}

Error open_error(int error, const Part& part, Access access, const std::string& spec) {
  if (error == EACCES || error == EPERM) return not_permitted(part, access);
  if (error == ENOENT || error == ENXIO || error == ENODEV) {
    if (part.kind == Part::Kind::devdax) return devdax_absent(part.path);
    return Error{ErrorCode::not_found,
                 fmt::format("pool {} is absent: there is no {}; run: penstock pool create {} "
                             "--size 2G",
                             spec, part.path, base::shell_quote(spec))};
  }
  if (error == EISDIR) {
    return Error{ErrorCode::wrong_format,
                 fmt::format("{} is a folder, not a pool; name a file in it, such as {}/pool",
                             part.path, part.path)};
  }
  return Error{ErrorCode::unavailable,
               fmt::format("{} cannot be opened: {}", part.path, system_text(error))};
}

Error no_space(const Part& part, std::uint64_t bytes, int error) {
  const std::string folder = folder_of(part.path);
  struct statvfs room;
  std::string free = "unknown";
  if (::statvfs(folder.c_str(), &room) == 0) {
    constexpr std::uint64_t mib = 1u << 20;
    const std::uint64_t bytes_free = static_cast<std::uint64_t>(room.f_bavail) * room.f_frsize;
    free = base::format_bytes(bytes_free / mib * mib);
  }
  // the size of a tmpfs is a mount option; other file systems have none
  const char* remount = part.kind == Part::Kind::shm
                            ? "mount -o remount,size=... /dev/shm (in a container: --shm-size)"
                            : "another folder";
  return Error{
      ErrorCode::no_space,
      fmt::format("{} needs {}, but {} has {} free ({}); give a smaller --size, free "
                  "space, or {}",
                  part.path, base::format_bytes(bytes), folder, free, system_text(error), remount)};
}

/// Growing a file beyond RLIMIT_FSIZE would raise a signal that ends the program.
Result<void> check_file_limit(const Part& part, std::uint64_t bytes) {
  rlimit limit;
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
      bytes <= limit.rlim_cur) {
    return {};
  }
  return fail(ErrorCode::no_space,
              "{} needs {}, but this process may write files of at most {}; run: ulimit -f "
              "unlimited (or give a smaller --size)",
              part.path, base::format_bytes(bytes), base::format_bytes(limit.rlim_cur));
}

Result<OpenPart> open_unnamed(const Part& part) {
  const std::string folder = folder_of(part.path);
  OpenPart open{.part = part, .alignment = page_bytes};
  open.fd = base::UniqueFd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (open.fd.get() < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == EINVAL)) {
    std::string hidden = fmt::format("{}/.penstock.XXXXXX", folder);
    open.fd = base::UniqueFd(::mkostemp(hidden.data(), O_CLOEXEC));
    if (open.fd.get() >= 0) open.temporary = TemporaryName(hidden);
  }
  if (open.fd.get() >= 0) return open;
  const int error = errno;
  if (error == ENOENT || error == ENOTDIR) {
    return fail(ErrorCode::not_found,
                "{} cannot be created: there is no folder {}; run: mkdir -p {}", part.path, folder,
                folder);
  }
  if (error == EACCES || error == EPERM || error == EROFS) {
    return fail(ErrorCode::permission,
                "{} cannot be created: user {} may not write in {} ({}); name a path in a folder "
                "of your own",
                part.path, user_name(::geteuid()), folder, system_text(error));
  }
  if (error == ENOSPC) return unexpected(no_space(part, 0, error));
  return fail(ErrorCode::unavailable, "{} cannot be created: {}", part.path, system_text(error));
}

Result<void> set_access(const OpenPart& part, const CreateOptions& options) {
  std::uint32_t permissions = options.permissions;
  if (options.group) {
    const auto gid = group_id(*options.group);
    if (!gid) {
      return fail(ErrorCode::invalid_argument,
                  "there is no group \"{}\"; those you belong to: id -nG (give --group NAME)",
                  *options.group);
    }
    if (::fchown(part.fd.get(), static_cast<uid_t>(-1), *gid) != 0) {
      return fail(ErrorCode::permission,
                  "user {} may not give {} to group {} ({}); name a group you belong to: id -nG",
                  user_name(::geteuid()), part.part.path, *options.group, system_text(errno));
    }
    permissions |= 0060;
  }
  // a device keeps udev's permissions unless a group is given
  if (part.device && !options.group) return {};
  if (::fchmod(part.fd.get(), permissions & 0777) != 0) {
    return fail(ErrorCode::permission, "mode {:04o} cannot be set on {}: {}", permissions,
                part.part.path, system_text(errno));
  }
  return {};
}

}  // namespace

Result<OpenPart> open_part(const Part& part, Access access, const std::string& spec) {
  // O_NONBLOCK: do not block on a FIFO of that name
  const int flags = (access == Access::write ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK;
  OpenPart open{.part = part, .fd = base::UniqueFd(::open(part.path.c_str(), flags))};
  if (open.fd.get() < 0) return unexpected(open_error(errno, part, access, spec));
  struct stat status;
  if (::fstat(open.fd.get(), &status) != 0) {
    return fail(ErrorCode::unavailable, "{} cannot be examined: {}", part.path, system_text(errno));
  }
  if (S_ISCHR(status.st_mode)) {
    auto geometry = PENSTOCK_TRY(devdax_geometry(part.path, open.fd.get()));
    open.device = true;
    open.bytes = geometry.bytes;
    open.alignment = geometry.alignment;
    return open;
  }
  if (part.kind == Part::Kind::devdax) {
    return fail(ErrorCode::wrong_format,
                "{} is not a device; if something wrote a file there, remove it and run: daxctl "
                "list",
                part.path);
  }
  if (S_ISDIR(status.st_mode)) return unexpected(open_error(EISDIR, part, access, spec));
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::wrong_format, "{} is neither a file nor a devdax device; see: ls -l {}",
                part.path, part.path);
  }
  open.bytes = static_cast<std::uint64_t>(status.st_size);
  open.alignment = page_bytes;
  return open;
}

Result<std::vector<OpenPart>> open_parts(const std::string& spec, Access access) {
  auto parts = PENSTOCK_TRY(parse_spec(spec));
  std::vector<OpenPart> open;
  for (const Part& part : parts) {
    auto opened = PENSTOCK_TRY(open_part(part, access, spec));
    open.push_back(std::move(opened));
  }
  return open;
}

Result<OpenPart> reserve_part(const Part& part, std::uint64_t bytes, std::uint64_t reserved) {
  PENSTOCK_TRY(check_file_limit(part, bytes));
  auto open = open_unnamed(part);
  if (!open) return open;
  reserved = std::min(reserved, bytes);
  int error;
  do {
    error = ::ftruncate(open->fd.get(), static_cast<off_t>(bytes)) == 0 ? 0 : errno;
    if (error == 0) error = ::posix_fallocate(open->fd.get(), 0, static_cast<off_t>(reserved));
  } while (error == EINTR);
  if (error == ENOSPC || error == EFBIG || error == EDQUOT || error == ENOMEM) {
    return unexpected(no_space(part, reserved, error));
  }
  if (error != 0) {
    return fail(ErrorCode::unavailable,
                "space for {} cannot be reserved: {}; name a path on another "
                "file system",
                part.path, system_text(error));
  }
  if (reserved < bytes && !can_reserve(open->fd.get())) {
    return fail(
        ErrorCode::unavailable,
        "{} cannot be sparse: its file system cannot reserve space for objects later, and a "
        "program would end by SIGBUS when it is full; leave --sparse out",
        part.path);
  }
  open->bytes = bytes;
  return open;
}

Result<void> name_part(const OpenPart& part, const CreateOptions& options) {
  if (auto set = set_access(part, options); !set) return set;
  if (part.device) return {};
  const std::string& path = part.part.path;
  const std::string self = part.temporary.path().empty()
                               ? fmt::format("/proc/self/fd/{}", part.fd.get())
                               : part.temporary.path();
  auto link_as = [&](const std::string& name) {
    return ::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) == 0;
  };
  if (link_as(path)) return {};
  if (errno == EEXIST && options.overwrite) {
    const std::string beside = fmt::format("{}.{}.new", path, ::getpid());
    if (link_as(beside)) {
      if (::rename(beside.c_str(), path.c_str()) == 0) return {};
      ::unlink(beside.c_str());
    }
  } else if (errno == EEXIST) {
    return fail(ErrorCode::already_exists,
                "{} exists; use it, or replace it by: penstock pool create {} --overwrite", path,
                base::shell_quote(options.spec));
  }
  return fail(ErrorCode::unavailable,
              "{} cannot be given its name: {}; name a path on another file "
              "system",
              path, system_text(errno));
}

FileKind file_kind(const Part& part) {
  struct stat status;
  if (::stat(part.path.c_str(), &status) != 0) return FileKind::absent;
  if (S_ISREG(status.st_mode)) return FileKind::regular;
  return S_ISCHR(status.st_mode) ? FileKind::device : FileKind::other;
}

bool is_device(const Part& part) {
  return part.kind == Part::Kind::devdax || file_kind(part) == FileKind::device;
}

}  // namespace penstock::device
