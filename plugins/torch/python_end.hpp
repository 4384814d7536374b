// How our threads behave when Python ends. Releasing a tensor, or calling a future's callbacks, may
// take Python's lock. A thread that asks for this lock while Python finalizes ends the process.
#pragma once

#include <type_traits>
#include <utility>

namespace penstock::torch {

/// A thread of ours must hold a turn while it releases a tensor or calls a callback. False: Python
/// is ending, and the thread must keep all its tensors.
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

/// Grants no more turns, and waits at most one second for turns that are held. Their holders may
/// need Python's lock, so the caller must not hold it.
void end_python_turns();

/// Keeps `value` alive for ever: its destructor never runs.
template <class Value>
void keep_for_good(Value&& value) {
  new std::decay_t<Value>(std::forward<Value>(value));
}

}  // namespace penstock::torch
