#include "pool/host_identity.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/checksum.hpp"
#include "base/format.hpp"
#include "base/unique_fd.hpp"

namespace penstock::pool {

namespace {

/// Reads a small file without trailing white space; nullopt if it is unreadable.
std::optional<std::string> read_small_file(const char* path) {
  constexpr std::size_t most = 64 << 10;
  const base::UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC));
  if (fd.get() < 0) return std::nullopt;
  std::string text;
  char buffer[1024];
  ssize_t length;
  do {
    length = ::read(fd.get(), buffer, sizeof buffer);
    if (length < 0) return std::nullopt;
    text.append(buffer, static_cast<std::size_t>(length));
  } while (length != 0 && text.size() < most);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.pop_back();
  }
  return text;
}

std::optional<int> hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return std::nullopt;
}

}  // namespace

std::optional<Uuid> parse_uuid(std::string_view text) {
  Uuid uuid{};
  std::size_t digits = 0;
  for (char c : text) {
    if (c == '-') continue;
    const auto digit = hex_digit(c);
    if (!digit || digits == 32) return std::nullopt;
    uuid[digits / 2] = static_cast<std::uint8_t>(uuid[digits / 2] << 4 | *digit);
    ++digits;
  }
  if (digits != 32) return std::nullopt;
  return uuid;
}

std::string format_uuid(const Uuid& uuid) {
  std::string text;
  for (std::size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", uuid[i]);
  }
  return text;
}

Result<HostIdentity> this_host() {
  HostIdentity host;
  constexpr const char* boot_id_path = "/proc/sys/kernel/random/boot_id";
  const auto text = read_small_file(boot_id_path);
  if (!text && (errno == EMFILE || errno == ENFILE)) {
    return fail(ErrorCode::unavailable, "cannot read {}: {}; run: ulimit -n 1024", boot_id_path,
                std::strerror(errno));
  }
  const auto boot_id = parse_uuid(text.value_or(""));
  if (!boot_id) {
    return fail(ErrorCode::unavailable,
                "no boot id in {}; is /proc mounted? mount -t proc proc /proc", boot_id_path);
  }
  host.boot_id = *boot_id;
  host.machine_id = parse_uuid(read_small_file("/etc/machine-id").value_or("")).value_or(Uuid{});
  char name[256] = {};
  if (::gethostname(name, sizeof name - 1) != 0) std::strcpy(name, "?");
  host.host = name;
  // distinguishes running machines that were cloned from one image, by their names
  std::uint64_t mixed;
  std::memcpy(&mixed, host.machine_id.data(), sizeof mixed);
  mixed ^= base::xxh64(name, std::strlen(name), 0);
  if (host.machine_id != Uuid{}) std::memcpy(host.machine_id.data(), &mixed, sizeof mixed);
  return host;
}

std::optional<ProcStat> read_proc_stat(std::uint64_t pid) {
  const auto text = read_small_file(fmt::format("/proc/{}/stat", pid).c_str());
  return text ? parse_proc_stat(*text) : std::nullopt;
}

std::optional<ProcStat> parse_proc_stat(std::string_view text) {
  // "PID (program) STATE ...": the program name may contain spaces and parentheses
  const std::size_t end_of_name = text.rfind(')');
  if (end_of_name == text.npos || end_of_name + 2 >= text.size()) return std::nullopt;
  ProcStat stat{.state = text[end_of_name + 2]};
  std::size_t at = end_of_name + 2;
  auto number_at = [&text, &at](std::uint64_t& value) {
    return std::from_chars(text.data() + at, text.data() + text.size(), value).ec == std::errc{};
  };
  constexpr int state_field = 3, threads_field = 20, start_time_field = 22;
  for (int field = state_field + 1; field <= start_time_field; ++field) {
    at = text.find(' ', at);
    if (at == text.npos) return std::nullopt;
    ++at;
    if (field == threads_field && !number_at(stat.threads)) return std::nullopt;
  }
  if (!number_at(stat.start_time)) return std::nullopt;
  return stat;
}

bool shows_own_pid_namespace(std::string_view status) {
  // NSpid lists a number for each namespace, from that of /proc down to the process's own
  constexpr std::string_view field = "\nNSpid:";
  const std::size_t at = status.find(field);
  if (at == status.npos) return true;  // older than 4.1
  std::string_view numbers = status.substr(at + field.size());
  numbers = numbers.substr(0, numbers.find('\n'));
  const std::size_t first = numbers.find_first_not_of(" \t");
  return first != numbers.npos && numbers.find_first_of(" \t", first) == numbers.npos;
}

Result<ProcessIdentity> this_process() {
  ProcessIdentity process;
  process.pid = static_cast<std::uint64_t>(::getpid());
  const auto stat = parse_proc_stat(read_small_file("/proc/self/stat").value_or(""));
  const auto status = read_small_file("/proc/self/status");
  struct stat of_pids, of_times;
  if (!stat || !status || ::stat("/proc/self/ns/pid", &of_pids) != 0) {
    return fail(ErrorCode::unavailable,
                "/proc/self cannot be read; is /proc mounted for the pid namespace of process {}? "
                "mount -t proc proc /proc",
                process.pid);
  }
  process.start_time = stat->start_time;
  const bool has_times = ::stat("/proc/self/ns/time", &of_times) == 0;  // from 5.6 on
  // a process that reads another namespace's /proc gets a scope of its own
  const bool reads_own = shows_own_pid_namespace(*status);
  const std::uint64_t namespaces[] = {of_pids.st_ino, has_times ? of_times.st_ino : 0,
                                      reads_own ? 0 : process.pid,
                                      reads_own ? 0 : process.start_time};
  process.scope = static_cast<std::uint32_t>(base::xxh64(namespaces, sizeof namespaces, 0));
  process.program = read_small_file("/proc/self/comm").value_or("?");
  return process;
}

}  // namespace penstock::pool
