#include "sim/cuda/stream.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "base/env.hpp"

namespace penstock::sim::cuda {

namespace {

std::atomic<Status> first_error{success};
std::atomic<unsigned> given{0};

/// A variable that makes calls long, so that a thread that asks meanwhile is noticed.
constexpr const char* asked_aborts = "STANDIN_ASKED_DURING_CALL_ABORTS";

/// Seeded by PENSTOCK_SIM_SEED; each stream draws its own delays.
class Delays {
 public:
  Delays() {
    static std::atomic<unsigned> streams{0};
    is_on_ = base::env_is_set("PENSTOCK_SIM_SEED");
    const auto seed = base::env_number("PENSTOCK_SIM_SEED");
    if (is_on_ && seed) random_.seed(static_cast<unsigned>(*seed) * 7919u + ++streams);
  }
  void pause() {
    constexpr unsigned one_of = 4, max_us = 200;
    if (!is_on_ || random_() % one_of != 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds(random_() % max_us));
  }

 private:
  bool is_on_;
  std::minstd_rand random_;
};

}  // namespace

unsigned operations() {
  return given;
}

Status sticky_error() {
  return first_error.load();
}

void set_sticky_error(Status status) {
  Status none = success;
  first_error.compare_exchange_strong(none, status);
}

void Mark::set() {
  const std::lock_guard<std::mutex> guard(mutex_);
  set_.store(true, std::memory_order_release);
  changed_.notify_all();
}

void Mark::wait() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return is_set(); });
}

std::shared_ptr<SharedQueue> SharedQueue::of_thread() {
  if (std::getenv("STANDIN_ONE_QUEUE") == nullptr) return nullptr;
  thread_local const auto queue = std::make_shared<SharedQueue>();
  return queue;
}

Operation SharedQueue::in_turn(const std::shared_ptr<SharedQueue>& queue, Operation operation) {
  const std::lock_guard<std::mutex> guard(queue->mutex_);
  return [queue, turn = queue->given_++, operation = std::move(operation)] {
    {
      std::unique_lock<std::mutex> lock(queue->mutex_);
      queue->changed_.wait(lock, [&] { return queue->done_ == turn; });
    }
    operation();
    const std::lock_guard<std::mutex> lock(queue->mutex_);
    ++queue->done_;
    queue->changed_.notify_all();
  };
}

StreamThread::StreamThread() : thread_([this] { run(); }) {}

StreamThread::~StreamThread() {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    ends_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void StreamThread::enqueue(Operation operation) {
  if (capture != nullptr) {
    capture->lane(this).push_back({Captured::Kind::operation, std::move(operation)});
    return;
  }
  const std::lock_guard<std::mutex> call(calls_);
  std::unique_lock<std::mutex> lock(mutex_);
  const auto has_room = [this] { return queue_.size() < max_queued; };
  if (!has_room() && std::getenv("STANDIN_FULL_QUEUE_ABORTS") != nullptr) {
    std::fputs("stand-in: a stream's queue is full, and its caller would wait in the driver\n",
               stderr);
    std::abort();
  }
  changed_.wait(lock, has_room);
  if (std::getenv(asked_aborts) != nullptr) {
    constexpr std::chrono::microseconds inside{100};
    lock.unlock();
    std::this_thread::sleep_for(inside);
    lock.lock();
  }
  ++given;
  if (shared_ != nullptr) operation = SharedQueue::in_turn(shared_, std::move(operation));
  queue_.push_back(std::move(operation));
  changed_.notify_all();
}

void StreamThread::synchronize() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

bool StreamThread::is_idle() {
  std::unique_lock<std::mutex> call(calls_, std::try_to_lock);
  if (!call && std::getenv(asked_aborts) != nullptr) {
    std::fputs("stand-in: a stream is asked about while another thread gives it operations\n",
               stderr);
    std::abort();
  }
  if (!call) call.lock();
  const std::lock_guard<std::mutex> guard(mutex_);
  return queue_.empty() && !busy_;
}

void StreamThread::run() {
  Delays delays;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return !queue_.empty() || ends_; });
    if (queue_.empty()) return;
    const Operation operation = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    delays.pause();
    operation();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

std::vector<Captured>& Capture::lane(StreamThread* stream) {
  for (auto& [owner, steps] : lanes)
    if (owner == stream) return steps;
  lanes.emplace_back(stream, std::vector<Captured>{});
  return lanes.back().second;
}

Status record(EventState& event, StreamThread& stream) {
  if (stream.capture != nullptr) {
    event = {.mark = nullptr, .capture = stream.capture, .captured = stream.capture->events++};
    stream.capture->lane(&stream).push_back({Captured::Kind::mark, {}, event.captured});
    return success;
  }
  auto mark = std::make_shared<Mark>();
  event = {.mark = mark, .capture = nullptr, .captured = 0};
  stream.enqueue([mark] { mark->set(); });
  return success;
}

Status wait_for(StreamThread& stream, const EventState& event) {
  if (event.capture != nullptr) {
    // A stream that waits for a captured event joins the capture.
    if (stream.capture == nullptr) stream.capture = event.capture;
    if (stream.capture != event.capture) return capture_unmatched;
    stream.capture->lane(&stream).push_back({Captured::Kind::wait, {}, event.captured});
    return success;
  }
  if (event.mark == nullptr) return success;
  stream.enqueue([mark = event.mark] { mark->wait(); });
  return success;
}

Status begin_capture(StreamThread& stream) {
  if (stream.capture != nullptr) return capture_unsupported;
  stream.capture = std::make_shared<Capture>();
  stream.capture->origin = &stream;
  stream.capture->lane(&stream);
  return success;
}

Status end_capture(StreamThread& stream, std::shared_ptr<Capture>& captured) {
  captured = stream.capture;
  if (captured == nullptr || captured->origin != &stream) return capture_unmatched;
  // The origin must wait for the last operation of each other stream.
  bool joined = true;
  for (auto& [owner, steps] : captured->lanes) {
    owner->capture = nullptr;
    if (owner == &stream || steps.empty()) continue;
    const bool ends_in_mark = steps.back().kind == Captured::Kind::mark;
    const std::size_t last = steps.back().event;
    joined =
        joined && ends_in_mark &&
        std::any_of(captured->lanes.begin(), captured->lanes.end(), [&](const auto& lane) {
          return std::any_of(lane.second.begin(), lane.second.end(), [&](const Captured& step) {
            return step.kind == Captured::Kind::wait && step.event == last;
          });
        });
  }
  return joined ? success : capture_unjoined;
}

void launch(const std::shared_ptr<Capture>& graph, StreamThread& stream) {
  stream.enqueue([graph] {
    std::vector<Mark> marks(graph->events);
    std::vector<std::thread> threads;
    for (const auto& lane : graph->lanes) {
      threads.emplace_back([&marks, &steps = lane.second] {
        Delays delays;
        for (const Captured& step : steps) {
          delays.pause();
          if (step.kind == Captured::Kind::operation) step.operation();
          if (step.kind == Captured::Kind::mark) marks[step.event].set();
          if (step.kind == Captured::Kind::wait) marks[step.event].wait();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  });
}

}  // namespace penstock::sim::cuda
