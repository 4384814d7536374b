// Streams of the stand-in GPU: each a thread that does its operations in order. Events, and capture
// of a graph. Two streams go on side by side and at their own pace (PENSTOCK_SIM_SEED
// delays operations at random, so that what only an accident of timing orders shows).
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "cuda/driver_types.hpp"

namespace penstock::sim::cuda {

using namespace penstock::cuda;

/// The first error of an operation; as with a GPU, all later calls fail with it.
Status sticky_error();
void set_sticky_error(Status status);

/// What an event was recorded for: done, once the operations before it are.
class Mark {
 public:
  void set();
  bool is_set() const { return set_.load(std::memory_order_acquire); }
  void wait();

 private:
  std::atomic<bool> set_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
};

struct Capture;

/// An operation of a graph may be done many times.
using Operation = std::function<void()>;

/// A queue of the hardware that several streams share: what they are given is done one after the
/// other, as it was given, and an operation that waits holds up all behind it. A GPU has 8 such
/// queues for a program (CUDA_DEVICE_MAX_CONNECTIONS).
class SharedQueue {
 public:
  /// With STANDIN_ONE_QUEUE that of the streams that this thread makes; else null.
  static std::shared_ptr<SharedQueue> of_thread();
  /// As `operation`, in its turn.
  static Operation in_turn(const std::shared_ptr<SharedQueue>& queue, Operation operation);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t given_ = 0, done_ = 0;
};

class StreamThread {
 public:
  /// A GPU queues about so many operations of a stream that waits; then the caller waits.
  static constexpr std::size_t max_queued = 1020;

  StreamThread();
  ~StreamThread();
  StreamThread(const StreamThread&) = delete;
  StreamThread& operator=(const StreamThread&) = delete;

  /// Done later, or taken into the graph that the stream captures. While it waits for room nobody
  /// is told about this stream, as NVIDIA's driver does.
  void enqueue(Operation operation);
  void synchronize();
  bool is_idle();

  std::shared_ptr<Capture> capture;  ///< while it captures

 private:
  void run();

  std::mutex calls_;  ///< of the driver on this stream
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Operation> queue_;
  std::shared_ptr<SharedQueue> shared_ = SharedQueue::of_thread();
  bool busy_ = false, ends_ = false;
  std::thread thread_;
};

struct EventState {
  std::shared_ptr<Mark> mark;        ///< of the last record; null: never
  std::shared_ptr<Capture> capture;  ///< recorded in a capture
  std::size_t captured = 0;          ///< its number there
};

/// What one stream does in a graph. `waits` and `marks` name numbers of events of the capture.
struct Captured {
  enum class Kind : std::uint8_t { operation, mark, wait };
  Kind kind = Kind::operation;
  Operation operation;
  std::size_t event = 0;
};

struct Capture {
  StreamThread* origin = nullptr;
  std::vector<std::pair<StreamThread*, std::vector<Captured>>> lanes;  ///< the origin's first
  std::size_t events = 0;
  bool is_global = false;  ///< forbids other threads too what may wait

  std::vector<Captured>& lane(StreamThread* stream);
};

Status record(EventState& event, StreamThread& stream);
Status wait_for(StreamThread& stream, const EventState& event);
Status begin_capture(StreamThread& stream);
Status end_capture(StreamThread& stream, std::shared_ptr<Capture>& captured);
/// Each lane of a graph on a thread of its own, as one operation of `stream`.
void launch(const std::shared_ptr<Capture>& graph, StreamThread& stream);

}  // namespace penstock::sim::cuda
