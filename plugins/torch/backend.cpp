#include "backend.hpp"

#include <ATen/record_function.h>
#include <c10/core/DeviceGuard.h>
#include <penstock/gpu.h>
#include <pybind11/pybind11.h>

#include <pthread.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>

namespace penstock::torch {

namespace {

/// Releases Python's lock if this thread holds it, because the worker may need it to end.
class WithoutPython {
 public:
  WithoutPython() {
    if (Py_IsInitialized() != 0 && PyGILState_Check() != 0) released_.emplace();
  }

 private:
  std::optional<pybind11::gil_scoped_release> released_;
};

std::string name_of(c10d::Backend& backend) {
  const std::string& described = backend.getGroupDesc();
  if (!described.empty() && described != "undefined") return described;
  const std::string& uid = backend.getGroupUid();
  if (!uid.empty()) return uid;
  const std::string& given = backend.getBackendOptions()->group_name;
  return given.empty() ? "0" : given;
}

/// The back ends of this process. Some live until Python ends, and Python may never free them.
struct Living {
  std::mutex mutex;
  std::set<Backend*> backends;
};

Living& living() {
  static auto* const all = new Living;
  return *all;
}

/// How many times this process has been forked off: a child does not share its parent's threads and
/// attachments.
std::uint64_t forks() {
  static std::atomic<std::uint64_t> count{0};
  static const int registered =
      pthread_atfork(nullptr, nullptr, [] { count.fetch_add(1, std::memory_order_relaxed); });
  (void)registered;
  return count.load(std::memory_order_relaxed);
}

std::uint64_t token_here() {
  const auto attached = Attached::there();
  return attached != nullptr ? attached->token() : 0;
}

/// The callback of penstock_comm_open(). No exception may leave it.
struct Exchange {
  const Meeting& meeting;
  const std::string& group;
  Patience patience;
  std::exception_ptr error;

  static int run(void* user, const void* mine, void* all, std::uint64_t bytes) {
    auto& self = *static_cast<Exchange*>(user);
    try {
      const std::string everyone = self.meeting.from_all(
          "comm", std::string(static_cast<const char*>(mine), bytes), self.group, self.patience);
      TORCH_CHECK(everyone.size() == bytes * static_cast<std::uint64_t>(self.meeting.size()),
                  "penstock: the ranks of process group ", self.group,
                  " have different versions of Penstock");
      std::copy(everyone.begin(), everyone.end(), static_cast<char*>(all));
      return 0;
    } catch (...) {
      self.error = std::current_exception();
      return 1;
    }
  }
};

}  // namespace

Backend::Backend(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                 c10::intrusive_ptr<Options> options, bool is_first)
    : c10d::Backend(rank, size),
      options_(std::move(options)),
      meeting_(store, rank, size, token_here()),
      is_first_(is_first),
      forks_(forks()),
      worker_(std::make_unique<Worker>()) {
  init();
  // TORCH_DISTRIBUTED_DEBUG=DETAIL asks for such a check.
  if (c10d::debug_level() == c10d::DebugLevel::Detail) options_->check = true;
  if (rank == 0) {
    try {
      attached_ = Attached::invite(meeting_);
    } catch (const c10::Error& error) {
      meeting_.give_up(error.what_without_backtrace());
      throw;
    }
  }
  // Ranks agree on the form of their GPUs' calls when they meet, so they must not meet before the
  // program has chosen a GPU.
  if (is_first && (gpu_in_use() || !may_use_gpu())) connect();
  const std::lock_guard<std::mutex> guard(living().mutex);
  living().backends.insert(this);
}

Backend::~Backend() {
  const WithoutPython released;
  {
    const std::lock_guard<std::mutex> guard(living().mutex);
    living().backends.erase(this);  // in a forked child too, because the list is copied
  }
  if (forks() != forks_) {  // the worker's threads do not exist in this process
    (void)worker_.release();
    keep_for_good(std::move(mail_));
    penstock_comm_close(comm_);
    return;
  }
  stop("was destroyed");
  close(false);
}

void Backend::check_process() {
  if (forks() == forks_) return;
  C10_THROW_ERROR(DistBackendError,
                  "penstock: process group " + name_of(*this) +
                      " belongs to the process from which this one was forked: make groups in the "
                      "process that uses them");
}

std::shared_ptr<Attached> Backend::attached() {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    if (attached_ != nullptr) return attached_;
  }
  auto accepted = Attached::accept(meeting_, name_of(*this), patience(nullptr));
  const std::lock_guard<std::mutex> guard(mutex_);
  if (attached_ == nullptr) attached_ = std::move(accepted);
  return attached_;
}

void Backend::connect() {
  if (comm_ != nullptr) return;
  try {
    open();
  } catch (const c10::Error& error) {
    meeting_.give_up(error.what_without_backtrace());
    throw;
  }
}

void Backend::open() {
  const auto at = attached();
  const std::string group = name_of(*this);
  const std::string name = "process group " + group;
  Exchange exchange{meeting_, group, patience(at->pool()), nullptr};
  penstock_comm_options_t options{};
  options.struct_bytes = sizeof options;
  options.rank = static_cast<std::uint32_t>(rank_);
  options.ranks = static_cast<std::uint32_t>(size_);
  options.name = name.c_str();
  options.exchange = Exchange::run;
  options.user = &exchange;
  options.check = options_->check ? 1 : 0;
  const std::optional<c10::Device> gpu = gpu_in_use();
  const c10::OptionalDeviceGuard on(gpu);  // a worker's thread has no current device
  options.gpu = gpu ? 1 : 0;
  penstock_comm_t* opened = nullptr;
  at->tensors().give_up_unused();
  const auto status = penstock_comm_open(at->pool(), &options, &opened);
  comm_ = opened;
  if (exchange.error != nullptr) std::rethrow_exception(exchange.error);
  if (status != PENSTOCK_OK) throw_last_error(status);
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {  // NOLINT: PyTorch's
  const auto attached = options.device().is_cpu() ? Attached::there() : nullptr;
  at::Tensor tensor;
  if (attached != nullptr) tensor = TensorMemory::allocate(attached, size, options);
  return tensor.defined() ? tensor : at::empty({size}, options);
}

std::shared_ptr<Mail> Backend::mail() {
  const std::lock_guard<std::mutex> guard(mail_mutex_);
  if (mail_ != nullptr) return mail_;
  {
    const std::lock_guard<std::mutex> of_error(mutex_);
    if (error_ != nullptr) std::rethrow_exception(error_);
  }
  std::vector<std::uint64_t> tokens;  // of the processes that have met in a collective
  for (int rank = 0; rank < size_; ++rank)
    tokens.push_back(penstock_comm_token(comm_, static_cast<std::uint32_t>(rank)));
  mail_ = Mail::start(
      meeting_, [this] { return attached(); }, name_of(*this), std::move(tokens));
  return mail_;
}

penstock_call_t Backend::call_of(const std::string& name, const Part& part,
                                 std::chrono::milliseconds timeout) {
  penstock_call_t call{};
  call.struct_bytes = sizeof call;
  call.name = name.c_str();
  call.collective = part.collective;
  call.root = static_cast<std::uint32_t>(part.root);
  call.datatype = part.reduction.datatype;
  call.operation = part.reduction.operation;
  call.factor = part.reduction.factor;
  call.output = part.output.base();
  call.input = part.in_place ? call.output : part.input.base();
  call.input_blocks = part.input.list().data();
  call.input_count = static_cast<std::uint32_t>(part.input.list().size());
  call.output_blocks = part.output.list().data();
  call.output_count = static_cast<std::uint32_t>(part.output.list().size());
  call.max_is_known = part.max_is_known ? 1 : 0;
  call.max_block_bytes = part.max_bytes;
  call.timeout_ns = static_cast<std::uint64_t>(std::chrono::nanoseconds(timeout).count());
  return call;
}

void Backend::run_part(const std::string& name, const Part& part,
                       std::chrono::milliseconds timeout) {
  penstock_call_t call = call_of(name, part, timeout);
  call.cancelled = &cancelled_;
  const auto status = penstock_comm_run(comm_, &call);
  if (status != PENSTOCK_OK) throw_last_error(status);
  part.output.store();
}

std::exception_ptr Backend::run(const How& how, std::uint64_t sequence,
                                const std::vector<Part>& parts) {
  std::exception_ptr error;
  const auto begin = std::chrono::steady_clock::now();
  try {
    {
      const std::lock_guard<std::mutex> guard(mutex_);
      if (error_ != nullptr) std::rethrow_exception(error_);
    }
    connect();
    const std::string name = how.name + (" #" + std::to_string(sequence));
    for (const Part& part : parts) run_part(name, part, how.timeout);
  } catch (const c10::ValueError&) {
    error = std::current_exception();  // all ranks fail alike, and nothing was done
  } catch (...) {
    error = std::current_exception();
    fail(error);
  }
  spent_ns_ += std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  return error;
}

c10::intrusive_ptr<Work> Backend::make_work(const How& how, const std::vector<Part>& parts,
                                            std::uint64_t sequence, Tensors results) const {
  if (!at::hasCallbacks())
    return c10::make_intrusive<Work>(rank_, how.type, sequence, std::move(results));
  const Tensors shown = shown_of(parts, results);
  const std::string title = std::string("penstock:") + how.name;
  return c10::make_intrusive<Work>(rank_, how.type, title.c_str(), shown, sequence,
                                   std::move(results));
}

/// The tensors of a call that a profiler shows.
Tensors Backend::shown_of(const std::vector<Part>& parts, const Tensors& results) {
  if (parts.empty()) return results;
  Tensors shown;
  for (const Part& part : parts) {
    const Tensors& taken =
        part.input.tensors().empty() ? part.output.tensors() : part.input.tensors();
    shown.insert(shown.end(), taken.begin(), taken.end());
  }
  return shown;
}

Pending Backend::start(const How& how, std::vector<Part> parts, Tensors results) {
  check_process();
  for (const Part& part : parts) part.output.check_writable(how.name);
  Tensors all;
  for (const Part& part : parts) {
    all.insert(all.end(), part.input.tensors().begin(), part.input.tensors().end());
    all.insert(all.end(), part.output.tensors().begin(), part.output.tensors().end());
  }
  if (const auto device = gpu_of(all)) return start_on_gpu(how, parts, std::move(results), *device);
  const std::uint64_t sequence = ++sequence_;
  auto work = make_work(how, parts, sequence, std::move(results));
  How used = how;
  used.timeout = limit_of_call(how);
  std::exception_ptr error;
  if (!how.async && worker_->now([&] { error = run(used, sequence, parts); })) {
    work->outcome()->end(error);
    return work;
  }
  worker_->later(
      [this, used, sequence, outcome = work->outcome(), held = std::move(parts)]() mutable {
        const auto ended_by = run(used, sequence, held);
        outcome->end_in_thread(ended_by, std::move(held));
      });
  return work;
}

void Backend::fail(const std::exception_ptr& error) {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (error_ == nullptr) error_ = error;
}

c10d::ErrorType Backend::getError() {
  const std::lock_guard<std::mutex> guard(mutex_);
  return error_ == nullptr ? c10d::ErrorType::SUCCESS : c10d::ErrorType::COMM_ERROR;
}

/// Ends the calls in progress, and all later ones, with an error.
void Backend::cancel(const char* why) {
  fail(std::make_exception_ptr(
      C10_BUILD_ERROR(DistBackendError, "penstock: process group " + name_of(*this) + " " + why)));
  __atomic_store_n(&cancelled_, 1, __ATOMIC_RELEASE);
}

/// Cancels also what GPUs have not done yet. First, because a thread that enqueues may wait until
/// the streams have room, and the worker waits for that thread.
void Backend::abort_calls(const char* why) {
  cancel(why);
  {
    const std::lock_guard<std::mutex> guard(comm_mutex_);
    if (comm_ != nullptr) penstock_comm_abort(comm_);
  }
  worker_->stop();
}

void Backend::stop(const char* why) {
  cancel(why);
  worker_->stop();
}

void Backend::abort() {
  if (forks() != forks_) return;
  const WithoutPython released;
  abort_calls("was aborted");
  const std::lock_guard<std::mutex> guard(mail_mutex_);
  if (mail_ != nullptr) mail_->stop(error_);
}

/// The store is often rank 0's, and ends with its group. A rank that left first and made the next
/// group at once would meet the others in the old store. So the others wait until it has ended, but
/// not for long, because rank 0 may be busy. Rank 0 waits for no rank.
void Backend::close(bool awaits_rank_0) {
  constexpr std::chrono::milliseconds longest{200};
  std::shared_ptr<Mail> ended;
  {
    const std::lock_guard<std::mutex> guard(mail_mutex_);
    ended = std::move(mail_);
  }
  if (ended != nullptr) ended->end();  // callbacks of its messages may call this object
  const std::uint64_t first = awaits_rank_0 ? penstock_comm_token(comm_, 0) : 0;
  penstock_comm_t* closed = nullptr;
  {
    const std::lock_guard<std::mutex> guard(comm_mutex_);  // another thread may ask for errors
    closed = comm_.exchange(nullptr);
  }
  penstock_comm_close(closed);
  std::shared_ptr<Attached> left;
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    left = std::move(attached_);
  }
  if (left != nullptr && first != 0 && first != left->token()) meeting_.await_end_of_store(longest);
}

/// Calls in progress end by themselves, as with NCCL and gloo: other ranks do their part later, or
/// a call's timeout ends it. If this thread is in a call's callback, that call ends when the
/// callback returns.
bool Backend::drain() {
  constexpr std::chrono::seconds silent{5};
  const auto none_left = [this](std::chrono::milliseconds limit) {
    if (!worker_->is_in_task() && !worker_->drain(limit)) return false;
    std::shared_ptr<Mail> messages;
    {
      const std::lock_guard<std::mutex> guard(mail_mutex_);
      messages = mail_;
    }
    return messages == nullptr || messages->drain(limit);
  };
  if (none_left(silent)) return true;
  TORCH_WARN("penstock: process group ", name_of(*this),
             " is destroyed when its calls that are under way have ended: other ranks have not "
             "done their part in them yet");
  return none_left(limit_of(kNoTimeout));
}

void Backend::shutdown() {
  if (forks() != forks_) return;
  const WithoutPython released;
  constexpr const char* why = "was destroyed";
  drain() ? stop(why) : abort_calls(why);
  close(is_first_);
}

bool Backend::is_idle() {
  if (!worker_->drain(std::chrono::milliseconds(0)) || gpu_stream_.is_used()) return false;
  const std::lock_guard<std::mutex> guard(mail_mutex_);
  return mail_ == nullptr || mail_->is_idle();
}

void Backend::leave_all() {
  {
    const std::lock_guard<std::mutex> guard(living().mutex);
    for (Backend* const backend : living().backends) {
      if (backend->forks_ != forks() || !backend->is_idle()) continue;
      backend->stop("was left when its process ended");
      backend->close(false);
    }
  }
  end_python_turns();
  Attached::leave();
}

c10::intrusive_ptr<c10d::Backend> Backend::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<c10d::Backend::Options>& options) {
  check_process();
  const auto found = std::find(ranks.begin(), ranks.end(), rank_);
  if (found == ranks.end()) return nullptr;
  auto own =
      c10::make_intrusive<Options>(options != nullptr ? options->timeout : options_->timeout);
  own->check = options_->check;
  if (options != nullptr) own->group_name = options->group_name;
  return c10::make_intrusive<Backend>(store, static_cast<int>(found - ranks.begin()),
                                      static_cast<int>(ranks.size()), own, false);
}

}  // namespace penstock::torch
