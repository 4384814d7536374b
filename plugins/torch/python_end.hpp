// The end of Python, as threads of ours see it. To let go of a tensor, or to call what waits for a
// future, may take Python's lock, and a thread that asks for it while Python finalizes ends the
// process.
#pragma once

#include <type_traits>
#include <utility>

namespace penstock::torch {

/// A thread of ours holds it while it does so. False: Python ends, and the thread keeps all that it
/// has.
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

/// From now on no turn is granted. Waits a moment for those that are held, which may need Python's
/// lock: not to be called with it.
void end_python_turns();

/// `value` is never let go of.
template <class Value>
void keep_for_good(Value&& value) {
  new std::decay_t<Value>(std::forward<Value>(value));
}

}  // namespace penstock::torch
