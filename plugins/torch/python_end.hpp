// The end of Python, as our threads see it. Releasing a tensor, or calling a future's callbacks,
// may take Python's lock. A thread that asks for this lock while Python finalizes ends the process.
#pragma once

#include <type_traits>
#include <utility>

namespace penstock::torch {

/// A thread of ours holds a turn while it does either. False: Python ends, and the thread must keep
/// all its tensors.
class PythonTurn {
 public:
  PythonTurn();
  ~PythonTurn();
  PythonTurn(const PythonTurn&) = delete;
  PythonTurn& operator=(const PythonTurn&) = delete;

  explicit operator bool() const { return granted_; }

 private:
  bool granted_ = false;
};

/// From now on no turn is granted. Waits a second at most for turns that are held. These may need
/// Python's lock, so the caller must not hold it.
void end_python_turns();

/// Never destroys `value`.
template <class Value>
void keep_for_good(Value&& value) {
  new std::decay_t<Value>(std::forward<Value>(value));
}

}  // namespace penstock::torch
