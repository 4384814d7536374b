// For tests: sets or unsets a variable and later restores its value.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace penstock::base {

class EnvironmentGuard {
 public:
  /// `value` nullptr: unsets the variable.
  EnvironmentGuard(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    assign(value);
  }
  EnvironmentGuard(const EnvironmentGuard&) = delete;
  EnvironmentGuard& operator=(const EnvironmentGuard&) = delete;
  ~EnvironmentGuard() { assign(before_ ? before_->c_str() : nullptr); }

 private:
  void assign(const char* value) {
    if (value != nullptr) {
      setenv(name_.c_str(), value, 1);
    } else {
      unsetenv(name_.c_str());
    }
  }
  std::string name_;
  std::optional<std::string> before_;
};

}  // namespace penstock::base
