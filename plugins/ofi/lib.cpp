#include "lib.hpp"

#include <dlfcn.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <string>

#include "base/found.hpp"
#include "base/log.hpp"

namespace penstock::ofi {

namespace {

/// Functions of the libfabric that is in this process already, in their newest versions.
struct Library {
  fi_info* (*dup)(const fi_info*) = nullptr;
  void (*free)(fi_info*) = nullptr;
};

Library find_library() {
  void* const loaded = ::dlopen("libfabric.so.1", RTLD_LAZY | RTLD_NOLOAD);
  void* const scope = loaded != nullptr ? loaded : RTLD_DEFAULT;
  return {reinterpret_cast<fi_info* (*)(const fi_info*)>(::dlsym(scope, "fi_dupinfo")),
          reinterpret_cast<void (*)(fi_info*)>(::dlsym(scope, "fi_freeinfo"))};
}

const Library& library() {
  static constinit base::Found<Library> found;
  return found.get(find_library);
}

const fi_provider* logging_provider = nullptr;

fi_log_level library_level(base::Level level) {
  switch (level) {
    case base::Level::error:
    case base::Level::warn:
      return FI_LOG_WARN;
    case base::Level::info:
      return FI_LOG_INFO;
    case base::Level::debug:
      break;
  }
  return FI_LOG_DEBUG;
}

constexpr base::LogHost library_log = {
    [](base::Level level) {
      return fi_log_enabled(logging_provider, library_level(level), FI_LOG_CORE) != 0;
    },
    [](base::Level level, std::string_view text, const base::SourcePlace& where) {
      fi_log(logging_provider, library_level(level), FI_LOG_CORE, where.function, where.line,
             "%.*s\n", static_cast<int>(text.size()), text.data());
    },
};

std::mutex text_mutex;
std::deque<std::string> texts;

}  // namespace

fi_info* allocate_info() {
  return library().dup != nullptr ? library().dup(nullptr) : nullptr;
}

void free_info(fi_info* info) {
  if (library().free != nullptr) library().free(info);
}

void use_library_log(const fi_provider* provider) {
  logging_provider = provider;
  base::set_log_host(&library_log);
}

int errno_of(const Error& error) {
  switch (error.code) {
    case ErrorCode::invalid_argument:
      return -FI_EINVAL;
    case ErrorCode::not_found:
      return -FI_EHOSTUNREACH;
    case ErrorCode::already_exists:
      return -FI_EADDRINUSE;
    case ErrorCode::permission:
      return -FI_EACCES;
    case ErrorCode::wrong_format:
      return -FI_EINVAL;
    case ErrorCode::mismatch:
      return -FI_EINVAL;
    case ErrorCode::no_space:
      return -FI_ENOSPC;
    case ErrorCode::no_slots:
      return -FI_EMFILE;
    case ErrorCode::deadline:
      return -FI_ETIMEDOUT;
    case ErrorCode::peer_dead:
      return -FI_ECONNRESET;
    case ErrorCode::unavailable:
      return -FI_EAGAIN;
    case ErrorCode::internal:
      break;
  }
  return -FI_EOTHER;
}

int report(const Error& error) {
  base::log(base::Level::error, "{}", error.message);
  return errno_of(error);
}

int remember_text(const std::string& text) {
  const std::lock_guard<std::mutex> guard(text_mutex);
  // One death fails many operations with the same text.
  const auto known = std::find(texts.begin(), texts.end(), text);
  const auto number = known - texts.begin() + 1;
  if (known == texts.end()) texts.push_back(text);
  return static_cast<int>(number);
}

const char* remembered_text(int number) {
  const std::lock_guard<std::mutex> guard(text_mutex);
  if (number < 1 || static_cast<std::size_t>(number) > texts.size()) return nullptr;
  return texts[static_cast<std::size_t>(number) - 1].c_str();
}

}  // namespace penstock::ofi
