#include "python_end.hpp"

#include <atomic>
#include <chrono>
#include <thread>

namespace penstock::torch {

namespace {

// No mutex: in a child of fork() it could stay locked by a thread of the parent.
std::atomic<int> turns{0};
std::atomic<bool> ended{false};

}  // namespace

PythonTurn::PythonTurn() {
  ++turns;
  granted_ = !ended;
  if (!granted_) --turns;
}

PythonTurn::~PythonTurn() {
  if (granted_) --turns;
}

void end_python_turns() {
  constexpr int looks = 1000;
  constexpr std::chrono::milliseconds between{1};
  ended = true;
  // With a limit, because a callback of a future may hang.
  for (int look = 0; look < looks && turns != 0; ++look) std::this_thread::sleep_for(between);
}

}  // namespace penstock::torch
