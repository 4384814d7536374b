// Streams of the stand-in GPU: each is a thread that does its operations in order. Events, and
// capture of a graph. Two streams run side by side at their own pace (PENSTOCK_SIM_SEED delays
// operations at random, so that an order which exists only by accident of timing is noticed).
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "gpu/driver_types.hpp"

namespace penstock::sim::cuda {

using namespace penstock::cuda;

/// The operations that all streams have been given so far.
unsigned operations();

/// The first error of an operation; as with a GPU, all later calls fail with it.
Status sticky_error();
void set_sticky_error(Status status);

/// The position that an event was recorded at: done once the operations before it are.
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

/// A hardware queue that several streams share: it does their operations one after the other, in
/// the order given, and a waiting operation holds up all later ones. A GPU has 8 such queues for a
/// program (CUDA_DEVICE_MAX_CONNECTIONS).
class SharedQueue {
 public:
  /// With STANDIN_ONE_QUEUE: the queue of the streams that this thread makes; else null.
  static std::shared_ptr<SharedQueue> of_thread();
  /// Wraps `operation` so that it runs in its turn.
  static Operation in_turn(const std::shared_ptr<SharedQueue>& queue, Operation operation);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t given_ = 0, done_ = 0;
};

class StreamThread {
 public:
  /// A GPU queues about this many operations of a waiting stream; then the caller waits.
  static constexpr std::size_t max_queued = 1020;

  StreamThread();
  ~StreamThread();
  StreamThread(const StreamThread&) = delete;
  StreamThread& operator=(const StreamThread&) = delete;

  /// The operation is done later, or joins the graph that the stream captures. While this call
  /// waits for room it answers no question about the stream, like NVIDIA's driver.
  void enqueue(Operation operation);
  void synchronize();
  bool is_idle();

  std::shared_ptr<Capture> capture;  ///< set while the stream captures

 private:
  void run();

  std::mutex calls_;  ///< guards the driver's calls on this stream
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Operation> queue_;
  std::shared_ptr<SharedQueue> shared_ = SharedQueue::of_thread();
  bool busy_ = false, ends_ = false;
  std::thread thread_;
};

struct EventState {
  std::shared_ptr<Mark> mark;        ///< of the last record; null: never recorded
  std::shared_ptr<Capture> capture;  ///< the capture in which it was recorded
  std::size_t captured = 0;          ///< its number in that capture
};

/// The operations of one stream in a graph. `waits` and `marks` name numbers of events of the
/// capture.
struct Captured {
  enum class Kind : std::uint8_t { operation, mark, wait };
  Kind kind = Kind::operation;
  Operation operation;
  std::size_t event = 0;
};

struct Capture {
  StreamThread* origin = nullptr;
  std::vector<std::pair<StreamThread*, std::vector<Captured>>> lanes;  ///< the origin's comes first
  std::size_t events = 0;
  bool is_global = false;  ///< also forbids other threads calls that may wait

  std::vector<Captured>& lane(StreamThread* stream);
};

Status record(EventState& event, StreamThread& stream);
Status wait_for(StreamThread& stream, const EventState& event);
Status begin_capture(StreamThread& stream);
Status end_capture(StreamThread& stream, std::shared_ptr<Capture>& captured);
/// Runs each lane of a graph on its own thread, as one operation of `stream`.
void launch(const std::shared_ptr<Capture>& graph, StreamThread& stream);

}  // namespace penstock::sim::cuda
